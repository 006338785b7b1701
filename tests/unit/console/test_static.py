"""The page's files: nothing of elsewhere, and colours that can be read in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import aiokafkapy.console

STATIC = Path(aiokafkapy.console.__file__).parent / "static"
STYLES = (STATIC / "console.css").read_text()
READABLE = 4.5
"""The contrast of text that WCAG 2 asks for (AA)."""


def theme(selector: str) -> dict[str, str]:
    """The colours of a theme, by their names."""
    block = STYLES.partition(selector + " {")[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("selector", [":root", ':root[data-theme="dark"]'])
def test_every_text_has_contrast_with_its_background(selector: str) -> None:
    colours = theme(selector)
    on_panels = [
        (ink, ground)
        for ink in ("ink", "muted", "accent", "bad", "warn", "good")
        for ground in ("bg", "panel", "raised")
    ]
    on_their_own = [(name, f"{name}-soft") for name in ("accent", "bad", "warn", "good")]
    for ink, ground in [*on_panels, *on_their_own, ("on-accent", "accent")]:
        assert contrast(colours[ink], colours[ground]) >= READABLE, (ink, ground)


def test_both_themes_have_the_same_colours() -> None:
    assert theme(":root").keys() == theme(':root[data-theme="dark"]').keys()


def test_no_file_names_another_place() -> None:
    for file in STATIC.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//cdn" not in text, file.name
        assert not re.search(r"https?://", text), file.name


def test_nothing_becomes_markup() -> None:
    for file in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", file.read_text()), (
            file.name
        )


def test_the_files_are_small() -> None:
    assert sum(file.stat().st_size for file in STATIC.iterdir()) < 150_000
