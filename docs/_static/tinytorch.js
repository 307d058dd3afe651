// A box that scrolls by itself can be reached with Tab and scrolled with the arrow keys; one that does not is left alone.
(() => {
  const BOXES = ".highlight pre, pre.literal-block, .cell_output, .cell_output .output, .cell_output pre, .table-wrapper";
  const say = (box) => box.matches(".table-wrapper") || box.querySelector("table") ? "table"
    : box.matches(".cell_output") ? "picture" : box.closest(".cell_output") ? "output" : "code";

  const scrolls = (box) => {
    const {overflowX, overflowY} = getComputedStyle(box), fixed = ["visible", "hidden", "clip"];
    return (box.scrollWidth > box.clientWidth + 1 && !fixed.includes(overflowX))
      || (box.scrollHeight > box.clientHeight + 1 && !fixed.includes(overflowY));
  };
  const reach = (box, wanted) => {
    if (wanted === box.hasAttribute("tabindex")) return;
    if (wanted) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${say(box)}, wider than the page`);
    } else {
      ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    const watch = new ResizeObserver((entries) =>  // first all are measured, then all are changed: one layout
      entries.map(({target}) => [target, scrolls(target)]).forEach(([box, wanted]) => reach(box, wanted)));
    document.querySelectorAll(BOXES).forEach((box) => watch.observe(box));
  });
})();
