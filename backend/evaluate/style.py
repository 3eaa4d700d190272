"""The look of the report: one column, serif text, light and dark, and plain on paper."""

CSS = """
:root { --ink: #1c1c1c; --paper: #ffffff; --soft: #5a5a5a; --line: #cfcfcf; --band: #f4f4f2; --link: #0b5394;
  --pass: #1b6b3a; --fail: #a61b1b; --none: #6b6b6b; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e3; --paper: #17181a; --soft: #a9a9a6; --line: #3d3f43;
  --band: #222427; --link: #8ab4e8; --pass: #7ccf9a; --fail: #f19a9a; --none: #a0a0a0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 "Source Serif 4", "Noto Serif", Georgia, "Times New Roman", serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); } .missing { color: var(--soft); font-style: italic; }
table, .status, nav, dl, code { font-family: "Source Sans 3", "Noto Sans", "Helvetica Neue", Arial, sans-serif; }
table { border-collapse: collapse; width: 100%; font-size: .84rem; line-height: 1.35; }
caption { text-align: left; color: var(--soft); padding: .2rem 0 .4rem; }
th { text-align: left; border-bottom: 1.5px solid var(--ink); padding: .25rem .6rem .25rem 0; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); padding: .25rem .6rem .25rem 0; vertical-align: top;
  overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
.status { white-space: nowrap; font-weight: 600; color: var(--none); }
.status.pass, .status.done { color: var(--pass); } .status.fail, .status.failed { color: var(--fail); }
.banner { border-left: .4rem solid var(--none); background: var(--band); padding: .8rem 1.1rem; margin: 1.2rem 0; }
.banner.accepted { border-color: var(--pass); } .banner.rejected { border-color: var(--fail); }
.banner strong { font-size: 1.25rem; } .banner.accepted strong { color: var(--pass); }
.banner.rejected strong { color: var(--fail); }
figure { margin: 1rem 0 1.4rem; }
figure img, figure video { display: block; max-width: 100%; height: auto; background: #ffffff; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .35rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 0 1.2rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .88rem; margin: .8rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font-size: .8rem; overflow-wrap: anywhere; }
@media print { :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --band: #f2f2f2; --pass: #14532d;
  --fail: #7f1d1d; --none: #555; color-scheme: light; } body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr, .banner { break-inside: avoid; } h2, h3 { break-after: avoid; } video { display: none !important; }
  .scroll { overflow: visible; } .film { display: none; } @page { margin: 18mm 16mm; } }
"""
