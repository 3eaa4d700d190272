"""Scene to MuJoCo: the Scene document, robots, collision, export and audit. Never imports bpy."""
