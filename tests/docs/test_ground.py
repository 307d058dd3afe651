"""What the site is made with: the reference, whatever a checkout holds; and a hash that follows it."""

import shutil
import sys
from pathlib import Path

from tito.notebooks.build import is_release
from tito.notebooks.read import dumps, load
from tito.project import find_module, find_root

ROOT = find_root(Path(__file__))
EXTENSIONS = str(ROOT / "docs" / "_ext")
sys.path.insert(0, EXTENSIONS)
import ground  # noqa: E402

sys.path.remove(EXTENSIONS)


def test_a_learner_s_checkout_makes_the_reference_s_pages(tmp_path):
    desk = ground.copy(ROOT, tmp_path / "desk")
    module = find_module(desk, "activations")
    reference = module.package.read_text(encoding="utf-8")
    assert ground.restore(desk) == []
    first = ground.digest(desk)

    nb = load(module.notebook)
    nb["cells"][-1]["source"] += "\nmine"
    module.notebook.write_text(dumps(nb), encoding="utf-8")
    module.package.write_text(reference.replace("src/02_activations/", "modules/02_activations/", 1), encoding="utf-8")
    assert ground.digest(desk) != first

    copy = ground.copy(desk, tmp_path / "build")
    assert ground.restore(copy) == ["02_activations"]
    assert find_module(copy, "activations").package.read_text(encoding="utf-8") == reference
    assert is_release(find_module(copy, "activations").notebook, module)
    assert ground.digest(copy) == first
    assert "mine" in module.notebook.read_text(encoding="utf-8")


def test_a_hash_follows_what_pages_are_made_of(tmp_path):
    place = tmp_path / "ground"
    shutil.copytree(ROOT / "docs" / "_data", place / "_data")
    first = ground.digest(place)
    (place / "__pycache__").mkdir()
    (place / "__pycache__" / "x.pyc").write_bytes(b"")
    assert ground.digest(place) == first
    (place / "_data" / "new.json").write_text("{}", encoding="utf-8")
    assert ground.digest(place) != first
