"""A page with text, rendered with Pillow: what the demo reads where no BMP is given."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

PARAGRAPHS = (
    "Five torch ops take this page from the rows of a BMP file to the input of a language model:",
    "1. bmp_to_patches cuts and normalises the pixels,",
    "2. attn_rel_h_rel_w looks over the whole page with a bias by row and column,",
    "3. prepare_image_attn_pos_id tells every token where it stands,",
    "4. replace_input_embeds puts the image tokens between the words of the prompt,",
    "5. shuffle_image_tokens interleaves them.",
    "The picture beside this file was put together again from the patches: if the red square stands at the top left, "
    "the green one at the top right and the blue one at the bottom left, then rows, columns and colours are in order.",
)


def render(path: Path, side: int = 1024) -> None:
    """Writes a 24-bit BMP of ``side`` x ``side`` pixels with a title, text, a rule and three coloured corners."""
    page = Image.new("RGB", (side, side), "white")
    draw = ImageDraw.Draw(page)
    corner, margin = side // 16, side // 10
    for colour, x, y in (("red", 0, 0), ("lime", side - corner, 0), ("blue", 0, side - corner)):
        draw.rectangle((x, y, x + corner - 1, y + corner - 1), fill=colour)
    title, body = ImageFont.load_default(side / 18), ImageFont.load_default(side / 40)
    draw.text((margin, margin), "A page for TileVL", fill="black", font=title)
    y = margin + side / 10
    draw.line((margin, y, side - margin, y), fill=(200, 120, 0), width=max(1, side // 256))
    y += side / 32
    for paragraph in PARAGRAPHS:
        for line in _wrapped(paragraph, body, side - 2 * margin):
            draw.text((margin, y), line, fill=(30, 30, 60), font=body)
            y += side / 30
        y += side / 60
    page.save(path, format="BMP")


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
