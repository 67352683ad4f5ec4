//! Colours and type of the charts, by day and by night.
//!
//! The eight hues keep a contrast of at least 3.3 to 1 with the paper and their distance from each
//! other for readers without red or green: at least 0.07 in OKLab, by day 0.1. For readers without
//! blue, who are rare, the sixth and eighth come nearer by night. The picture brings its own
//! paper, because a page around it may be dark while the reader's system is light. All rules begin
//! with the class of the root, so that a chart placed inside a page does not restyle it.

/// Colours in the palette; a higher index begins again in a softer tone.
pub(super) const HUES: usize = 8;

pub(super) const CSS: &str = "
.tide{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
.tide .paper{fill:#fff}
.tide text{fill:#1f2328}
.tide .title{font-size:15px;font-weight:600}
.tide .muted{fill:#59636e}
.tide .tick,.tide .axis{fill:#59636e;font-size:11px}
.tide .axis{font-weight:600}
.tide .end{text-anchor:end}
.tide .middle{text-anchor:middle}
.tide .grid{stroke:#e4e8ec;stroke-width:1;fill:none}
.tide .foot{stroke:#8c959f;stroke-width:1;fill:none}
.tide .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.tide .fine{stroke-width:1.2}
.tide .dash{stroke-dasharray:4 5;stroke-width:1.6}
.tide .lead{fill:none;stroke:currentColor;stroke-width:1;stroke-opacity:.45}
.tide .area{fill:currentColor;fill-opacity:.16;stroke:currentColor;stroke-opacity:.5}
.tide .mark{fill:currentColor;stroke:#fff;stroke-width:1}
.tide .soft{opacity:.55}
.tide .h0{color:#0072b2}
.tide .h1{color:#d55e00}
.tide .h2{color:#009e73}
.tide .h3{color:#a3206f}
.tide .h4{color:#9079fe}
.tide .h5{color:#70530b}
.tide .h6{color:#451b9e}
.tide .h7{color:#2b2f36}
@media (prefers-color-scheme:dark){
.tide .paper{fill:#11161c}
.tide text{fill:#e6edf3}
.tide .muted,.tide .tick,.tide .axis{fill:#9aa5b1}
.tide .grid{stroke:#262d36}
.tide .foot{stroke:#6b7580}
.tide .mark{stroke:#11161c}
.tide .h0{color:#58a6ff}
.tide .h1{color:#f2793a}
.tide .h2{color:#2aa876}
.tide .h3{color:#c56fab}
.tide .h4{color:#7fdcf5}
.tide .h5{color:#ebe04a}
.tide .h6{color:#7f77f5}
.tide .h7{color:#ffc9b0}
}
";

/// The classes of a series' colour.
pub(super) fn hue(index: usize) -> String {
    let soft = if index / HUES % 2 == 1 { " soft" } else { "" };
    format!("h{}{soft}", index % HUES)
}

/// The outline of a marker around the current point: a second sign beside the colour.
pub(super) fn marker(index: usize) -> &'static str {
    const SHAPES: [&str; HUES] = [
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        "m-3.5-3.5h7v7h-7z",
        "m0-5l5 5l-5 5l-5-5z",
        "m0-4.5l4.6 8h-9.2z",
        "m0 4.5l4.6-8h-9.2z",
        "m-1.6-4.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z",
        "m-4.6 0l2.3-4h4.6l2.3 4l-2.3 4h-4.6z",
        "m-4.5-2.5h9v5h-9z",
    ];
    SHAPES[index % HUES]
}
