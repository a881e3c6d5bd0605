"""Makes the vision tasks' inputs in data/ and frames/ from pictures that come with scikit-image.

Problem: the inputs must be real pictures, free to share, with a known right answer.
Rule: every picture is cropped, never rescaled; motion and depth are applied here from the constants below, so tests know
the truth without storing it.
  stereo_left/right.pgm   layers of ground texture (gravel, brick, grass), each shifted by its own whole disparity, nearer
                          layers over farther ones, plus small sensor noise; see LAYERS and disparity_truth()
  motion_a/b.pgm          a crop of `astronaut` in grey, and the same crop after MOTION, sampled with cubic splines from
                          the larger picture, so that no border is invented
  grey.pgm                a crop of `camera`
  colour.ppm              a crop of `coffee`
  frames/                 the middles of these pictures, as small as a robot's camera hands them to each frame (FRAMES)
Licences of the pictures are in README.md.

Usage: python make_inputs.py [DIRECTORY]    (default: beside this file; writes data/ and frames/ there)
"""

import argparse
from pathlib import Path

import numpy as np
from scipy import ndimage
from skimage import data

STEREO_SIZE = (480, 360)  # width, height in pixels
# Back to front: texture, disparity in pixels, rectangle in the left picture as (x0, y0, x1, y1), end exclusive.
LAYERS = (
    ("gravel", 4, (0, 0, 480, 360)),
    ("gravel", 7, (0, 240, 480, 360)),
    ("grass", 11, (40, 40, 190, 200)),
    ("brick", 16, (250, 60, 420, 180)),
    ("brick", 20, (150, 170, 330, 320)),
)
NOISE = 2  # grey levels, uniform in -NOISE..NOISE
NOISE_SEED = 20150

MOTION_SIZE = (320, 240)
MOTION_ORIGIN = (96, 40)  # of frame A in the source picture, x and y
# A point p of frame A, measured from the frame's centre, is at MOTION @ p + SHIFT of frame B, from its centre.
ANGLE = np.deg2rad(1.5)
SCALE = 1.01
MOTION = SCALE * np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
SHIFT = np.array([3.2, -2.1])

GREY_SIZE = (512, 384)
COLOUR_SIZE = (320, 240)
COLOUR_ORIGIN = (140, 80)
# The demo's frames: 240 x 160 for stereo, 160 x 120 for the rest.
FRAMES = {
    "stereo_left.pgm": (240, 160),
    "stereo_right.pgm": (240, 160),
    "motion_a.pgm": (160, 120),
    "motion_b.pgm": (160, 120),
    "grey.pgm": (160, 120),
    "colour.ppm": (160, 120),
}


def disparity_truth():
    """Disparity of each left pixel, and whether the right picture shows it too: two arrays of (height, width)."""
    width, height = STEREO_SIZE
    left = np.zeros((height, width), dtype=np.int32)
    right = np.full((height, width), -1, dtype=np.int32)
    for _, disparity, (x0, y0, x1, y1) in LAYERS:
        left[y0:y1, x0:x1] = disparity
        right[y0:y1, max(x0 - disparity, 0) : x1 - disparity] = disparity
    column = np.arange(width)[None, :] - left
    row = np.arange(height)[:, None]
    seen = (column >= 0) & (right[row, np.maximum(column, 0)] == left)
    return left, seen


def motion_truth(points):
    """Places in frame B of `points`, an (n, 2) array of x, y in frame A."""
    centre = (np.array(MOTION_SIZE) - 1) / 2
    return (np.asarray(points) - centre) @ MOTION.T + SHIFT + centre


def stereo_pair():
    """The left and right pictures, uint8 (height, width)."""
    width, height = STEREO_SIZE
    textures = {name: getattr(data, name)() for name, _, _ in LAYERS}
    # The farthest layer runs on past the right edge, where only the right picture looks.
    pair = [np.zeros((height, width), dtype=np.int32) for _ in range(2)]
    for name, disparity, (x0, y0, x1, y1) in LAYERS:
        texture = textures[name]
        beyond = disparity if x1 == width else 0
        pair[0][y0:y1, x0:x1] = texture[y0:y1, x0:x1]
        first = max(x0 - disparity, 0)
        last = x1 + beyond - disparity
        pair[1][y0:y1, first:last] = texture[y0:y1, first + disparity : last + disparity]
    noise = np.random.RandomState(NOISE_SEED)  # the legacy generator: its stream is frozen between numpy versions
    return [
        np.clip(picture + noise.randint(-NOISE, NOISE + 1, picture.shape), 0, 255).astype(np.uint8) for picture in pair
    ]


def motion_pair():
    """Frames A and B, uint8 (height, width)."""
    colour = data.astronaut().astype(np.float64)
    source = colour @ np.array([0.299, 0.587, 0.114])
    width, height = MOTION_SIZE
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    centre = (np.array(MOTION_SIZE) - 1) / 2
    places = np.stack([x, y], axis=-1) - centre
    back = (places - SHIFT) @ np.linalg.inv(MOTION).T + centre + MOTION_ORIGIN
    frame_b = ndimage.map_coordinates(source, [back[..., 1], back[..., 0]], order=3)
    x0, y0 = MOTION_ORIGIN
    frame_a = source[y0 : y0 + height, x0 : x0 + width]
    return [np.clip(np.rint(frame), 0, 255).astype(np.uint8) for frame in (frame_a, frame_b)]


def write_netpbm(path, picture):
    """Writes uint8 (height, width) as PGM or (height, width, 3) as PPM."""
    kind = b"P6" if picture.ndim == 3 else b"P5"
    height, width = picture.shape[:2]
    path.write_bytes(b"%s\n%d %d\n255\n" % (kind, width, height) + np.ascontiguousarray(picture).tobytes())


def middle(picture, size):
    """The middle of a picture, of (width, height)."""
    width, height = size
    y0, x0 = (picture.shape[0] - height) // 2, (picture.shape[1] - width) // 2
    return picture[y0 : y0 + height, x0 : x0 + width]


def make_inputs(directory):
    """Writes all inputs into `directory`/data and /frames, which are created when missing."""
    pictures = dict(zip(("stereo_left.pgm", "stereo_right.pgm"), stereo_pair()))
    pictures.update(zip(("motion_a.pgm", "motion_b.pgm"), motion_pair()))
    width, height = GREY_SIZE
    pictures["grey.pgm"] = data.camera()[:height, :width]
    (width, height), (x0, y0) = COLOUR_SIZE, COLOUR_ORIGIN
    pictures["colour.ppm"] = data.coffee()[y0 : y0 + height, x0 : x0 + width]
    for part in ("data", "frames"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        write_netpbm(directory / "data" / name, picture)
        write_netpbm(directory / "frames" / name, middle(picture, FRAMES[name]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parent)
    make_inputs(parser.parse_args().directory)
