"""Rigid transforms and the pinhole camera, as plain numpy.

Quaternions are `wxyz`; transforms are 4x4 and map the named frame into its parent; cameras are OpenCV optical
frames (x right, y down, z forward) given camera-to-world.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def quaternion_matrix(quaternion: npt.ArrayLike) -> Array:
    """Rotation matrices `(..., 3, 3)` of quaternions `(..., 4)`, normalised first."""
    q = np.asarray(quaternion, dtype=np.float64)
    w, x, y, z = np.moveaxis(q / np.linalg.norm(q, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def matrix_quaternion(rotation: npt.ArrayLike) -> Array:
    """Quaternion `(4,)`, `w >= 0`, of one rotation matrix (Shepperd's method)."""
    m = np.asarray(rotation, dtype=np.float64)[:3, :3]
    trace = np.trace(m)
    candidates = np.array([trace, m[0, 0], m[1, 1], m[2, 2]])
    choice = int(np.argmax(candidates))
    if choice == 0:
        q = np.array([1 + trace, m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])
    else:
        i = choice - 1
        j, k = (i + 1) % 3, (i + 2) % 3
        q = np.empty(4)
        q[0] = m[k, j] - m[j, k]
        q[1 + i] = 1 + m[i, i] - m[j, j] - m[k, k]
        q[1 + j] = m[j, i] + m[i, j]
        q[1 + k] = m[k, i] + m[i, k]
    q /= np.linalg.norm(q)
    return q if q[0] >= 0 else -q


def transform(position: npt.ArrayLike, quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0)) -> Array:
    """The 4x4 transform of a position and a quaternion."""
    matrix = np.eye(4)
    matrix[:3, :3] = quaternion_matrix(quaternion)
    matrix[:3, 3] = position
    return matrix


def inverse(matrix: npt.ArrayLike) -> Array:
    """Inverse of rigid transforms `(..., 4, 4)`."""
    m = np.asarray(matrix, dtype=np.float64)
    result = np.zeros_like(m)
    rotation = np.swapaxes(m[..., :3, :3], -1, -2)
    result[..., :3, :3] = rotation
    result[..., :3, 3] = -(rotation @ m[..., :3, 3, None])[..., 0]
    result[..., 3, 3] = 1.0
    return result


def apply(matrix: npt.ArrayLike, points: npt.ArrayLike) -> Array:
    """Points `(N, 3)` moved by one transform `(4, 4)`."""
    m = np.asarray(matrix, dtype=np.float64)
    moved: Array = np.asarray(points, dtype=np.float64) @ m[:3, :3].T + m[:3, 3]
    return moved


def rotation_about(axis: npt.ArrayLike, angle: float) -> Array:
    """Rotation matrix `(3, 3)` of `angle` radians about `axis` (Rodrigues)."""
    x, y, z = np.asarray(axis, dtype=np.float64) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    rotation: Array = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return rotation


def rotation_angle(rotation: npt.ArrayLike) -> float:
    """Angle in radians of one rotation matrix."""
    m = np.asarray(rotation, dtype=np.float64)[:3, :3]
    return float(np.arccos(np.clip((np.trace(m) - 1) / 2, -1.0, 1.0)))


def is_rigid(matrix: npt.ArrayLike, tolerance: float = 1e-3) -> bool:
    """Whether `(4, 4)` is orthonormal, right-handed and finite."""
    m = np.asarray(matrix, dtype=np.float64)
    if m.shape != (4, 4) or not np.isfinite(m).all():
        return False
    rotation = m[:3, :3]
    orthonormal = np.abs(rotation @ rotation.T - np.eye(3)).max() < tolerance
    return bool(orthonormal and np.linalg.det(rotation) > 0 and np.allclose(m[3], (0, 0, 0, 1), atol=tolerance))


def project(points: npt.ArrayLike, intrinsics: npt.ArrayLike, camera: npt.ArrayLike) -> tuple[Array, Array]:
    """Pixels `(N, 2)` and optical depths `(N,)` in metres of world points, without lens distortion.

    Args:
        points: `(N, 3)` world metres.
        intrinsics: `(3, 3)` pixels.
        camera: `(4, 4)` camera-to-world.
    """
    local = apply(inverse(camera), points)
    pixels = local @ np.asarray(intrinsics, dtype=np.float64).T
    depth = local[:, 2]
    safe = np.where(np.abs(depth) < 1e-9, 1e-9, depth)
    return pixels[:, :2] / safe[:, None], depth


def rays(pixels: npt.ArrayLike, intrinsics: npt.ArrayLike, camera: npt.ArrayLike) -> tuple[Array, Array]:
    """Origin `(3,)` and unit directions `(N, 3)` in the world of the rays through pixels `(N, 2)`."""
    p = np.atleast_2d(np.asarray(pixels, dtype=np.float64))
    local = np.column_stack([p, np.ones(len(p))]) @ np.linalg.inv(np.asarray(intrinsics, dtype=np.float64)).T
    c = np.asarray(camera, dtype=np.float64)
    directions = local @ c[:3, :3].T
    return c[:3, 3].copy(), directions / np.linalg.norm(directions, axis=1, keepdims=True)


def look_at(eye: npt.ArrayLike, target: npt.ArrayLike, up: npt.ArrayLike = (0.0, 0.0, 1.0)) -> Array:
    """Camera-to-world `(4, 4)` of a camera at `eye` that sees `target` in its centre."""
    e = np.asarray(eye, dtype=np.float64)
    forward: Array = np.asarray(target, dtype=np.float64) - e
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, np.asarray(up, dtype=np.float64))
    right /= np.linalg.norm(right)
    matrix = np.eye(4)
    matrix[:3, :3] = np.column_stack([right, np.cross(forward, right), forward])
    matrix[:3, 3] = e
    return matrix
