"""The Blender half of Real2Gym; bpy lives only here."""
