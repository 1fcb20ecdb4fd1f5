"""The compiled form is either up to date or removed. These tests replace the compiler by a quick one."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tools import compile_server

STUB = f"scheduler{EXTENSION_SUFFIXES[0]}"
LIBRARY = f"{compile_server.GROUP}__mypyc{EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def compiler(monkeypatch):
    """Replaces the compiler. Returns the folders into which it compiled."""
    monkeypatch.setattr(compile_server, "has_compiler", lambda: True)
    calls: list[Path] = []

    def compile_to(folder: Path) -> None:
        calls.append(folder)
        for file in (folder / LIBRARY, folder / "taskyard_server" / "core" / STUB):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("compiled")

    monkeypatch.setattr(compile_server, "compile_to", compile_to)
    return calls


@pytest.fixture(autouse=True)
def core(tmp_path, monkeypatch):
    """A core of one module, in a temporary folder."""
    core = tmp_path / "taskyard_server" / "core"
    core.mkdir(parents=True)
    (core / "__init__.py").touch()
    (core / "scheduler.py").write_text("first")
    monkeypatch.setattr(compile_server, "SERVER", tmp_path)
    monkeypatch.setattr(compile_server, "PACKAGE", core.parent)
    monkeypatch.setattr(compile_server, "BESIDE_THE_CORE", ())
    monkeypatch.setattr(compile_server, "STAMP", core.parent / ".compiled")
    return core


def test_the_compiled_form_is_fresh_until_a_source_changes(core, compiler):
    assert not compile_server.is_fresh()
    compile_server.main()
    assert compile_server.is_fresh()
    assert len(compiler) == 1
    assert {path.name for path in compile_server.compiled()} == {STUB, LIBRARY}
    (core / "scheduler.py").write_text("second")
    assert not compile_server.is_fresh()


def test_what_is_compiled_can_be_removed_always_or_where_it_is_stale(core, compiler):
    compile_server.main()
    compile_server.main("--remove-stale")
    assert compile_server.is_fresh()
    compile_server.main("--remove")
    assert not compile_server.compiled()
    compile_server.main()
    (core / "scheduler.py").write_text("second")
    compile_server.main("--remove-stale")
    assert not compile_server.compiled()
    assert len(compiler) == 2


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("change", ["rename", "add"])
def test_a_new_or_renamed_module_makes_the_compiled_form_stale(core, change):
    compile_server.main()
    if change == "rename":
        (core / "scheduler.py").rename(core / "another.py")
    else:
        (core / "another.py").touch()
    assert not compile_server.is_fresh()


@pytest.mark.usefixtures("compiler")
def test_an_incomplete_compiled_form_is_stale(core):
    compile_server.main()
    (core / STUB).unlink()
    assert not compile_server.is_fresh()


def test_a_fresh_form_is_not_compiled_again(compiler):
    compile_server.main()
    compile_server.main()
    assert len(compiler) == 1


@pytest.mark.usefixtures("compiler")
def test_a_stale_form_is_removed_before_compiling(core, monkeypatch):
    compile_server.main()
    (core / "scheduler.py").write_text("second")

    def fail(_folder):
        raise RuntimeError("no memory")

    monkeypatch.setattr(compile_server, "compile_to", fail)
    with pytest.raises(RuntimeError):
        compile_server.main()
    assert compile_server.compiled() == []
    assert not compile_server.is_fresh()


@pytest.mark.parametrize("compiler", ["/nonexistent", "/nonexistent -pthread"])
def test_without_a_compiler_nothing_is_compiled_and_one_line_says_so(core, monkeypatch, capsys, compiler):
    monkeypatch.setenv("CC", compiler)
    compile_server.main()
    assert [path.name for path in sorted(core.iterdir())] == ["__init__.py", "scheduler.py"]
    assert capsys.readouterr().out == compile_server.NO_COMPILER + "\n"
    assert not compile_server.is_fresh()


@pytest.mark.usefixtures("compiler")
def test_without_a_compiler_a_stale_form_is_removed_too(core, monkeypatch):
    compile_server.main()
    (core / "scheduler.py").write_text("second")
    monkeypatch.setattr(compile_server, "has_compiler", lambda: False)
    compile_server.main()
    assert compile_server.compiled() == []
