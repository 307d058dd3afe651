// What a reader would stumble over on this page, as a list of [kind, complaint]. Run in the page by test_site.py.
(kinds) => {
  const found = [], canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const colours = new Map(), grounds = new WeakMap(), opacities = new WeakMap(), said = new Set();

  const say = (kind, text) => said.has(kind + text) || (said.add(kind + text), found.push([kind, text]));
  const name = (element) => {
    const kind = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
      + [...element.classList].slice(0, 3).map((word) => "." + word).join("");
    const text = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return text ? `${kind} "${text}"` : kind;
  };
  const shown = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true})
    && element.getBoundingClientRect().width > 1 && element.getBoundingClientRect().height > 1;
  const focusable = (element) => element.matches(
    "a[href], button:not([disabled]), input:not([disabled]):not([type=hidden]), select, textarea, summary, [tabindex='0']");

  // any CSS colour as [red, green, blue, opacity]
  const colour = (text) => {
    if (!colours.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (element) => {  // what is behind its text
    if (!element) return colour(matchMedia("(prefers-color-scheme: dark)").matches
      && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "#121212" : "#fff");
    if (!grounds.has(element))
      grounds.set(element, over(colour(getComputedStyle(element).backgroundColor), ground(element.parentElement)));
    return grounds.get(element);
  };
  const opacity = (element) => {
    if (!element) return 1;
    if (!opacities.has(element))
      opacities.set(element, getComputedStyle(element).opacity * opacity(element.parentElement));
    return opacities.get(element);
  };
  const light = (rgb) => {  // WCAG 2.2, relative luminance
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  let held;
  const texts = () => {  // the elements that hold visible text
    if (held) return held;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), holders = new Set(), kinds = new Map();
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement, code = element.closest("pre");
      if (!walker.currentNode.data.trim() || holders.has(element)) continue;
      if (code && element !== code) {  // in a block of code, words of one colour are one
        if (!kinds.has(code)) kinds.set(code, new Set());
        const kind = element.outerHTML.length < 500 && !element.hasAttribute("style")
          && `${element.className} in ${element.parentElement.className}`;
        if (kind && kinds.get(code).has(kind)) continue;
        kinds.get(code).add(kind);
      }
      holders.add(element);
    }
    return held = [...holders].filter((element) => !element.closest("script, style, noscript, template") && shown(element));
  };

  const checks = {
    phone() {
      const root = document.documentElement;
      if (root.scrollWidth <= root.clientWidth) return;
      const clipped = (element) => element && element !== document.body
        && (getComputedStyle(element).overflowX !== "visible" || clipped(element.parentElement));
      const wide = [...document.body.querySelectorAll("*")].filter((element) =>
        shown(element) && element.getBoundingClientRect().right > root.clientWidth + 1 && !clipped(element.parentElement));
      say("phone", `${root.scrollWidth} px wide in ${root.clientWidth}: ${wide.slice(-2).map(name).join("; ")}`);
    },
    text() {
      for (const element of texts()) {
        const size = parseFloat(getComputedStyle(element).fontSize);
        if (size < (element.closest("sup, sub") ? 9 : 12)) say("text", `${size.toFixed(1)} px: ${name(element)}`);
      }
    },
    contrast() {
      for (const element of texts()) {
        const style = getComputedStyle(element), behind = ground(element), [r, g, b, a] = colour(style.color);
        const big = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24);
        const ratio = contrast(over([r, g, b, a * opacity(element)], behind), behind);
        if (ratio < (big ? 3 : 4.5)) say("contrast", `${ratio.toFixed(2)}: ${name(element)}`);
      }
    },
    pictures() {
      for (const image of document.images) {
        if (!image.alt.trim()) say("pictures", `no alternative text: ${image.src.slice(-60)}`);
        if (!image.complete || !image.naturalWidth) say("pictures", `not loaded: ${image.src.slice(-60)}`);
      }
    },
    scrolling() {  // what scrolls by itself must be within reach of the keyboard
      for (const element of document.body.querySelectorAll("*:not(pre *)")) {
        const scrolls = (size, whole, overflow) => whole > size + 1 && ["auto", "scroll"].includes(overflow);
        const style = getComputedStyle(element);
        if ((scrolls(element.clientWidth, element.scrollWidth, style.overflowX)
             || scrolls(element.clientHeight, element.scrollHeight, style.overflowY)) && shown(element)
            && !focusable(element) && ![...element.querySelectorAll("*")].some(focusable))
          say("scrolling", name(element));
      }
    },
    focus() {  // after a Tab, so that the browser shows what is focused
      const alike = new Map();  // three of a kind are enough: each takes the whole page a new look
      for (const element of document.body.querySelectorAll("*")) {
        if (!focusable(element) || !element.checkVisibility({visibilityProperty: true})) continue;
        const kind = `${element.tagName} ${element.className} in ${element.parentElement.className}`;
        alike.set(kind, (alike.get(kind) || 0) + 1);
        if (alike.get(kind) > 3) continue;
        const looks = () => {
          const {outlineStyle, outlineWidth, boxShadow, opacity: seen} = getComputedStyle(element);
          return {ring: outlineStyle !== "none" && parseFloat(outlineWidth) > 0, boxShadow, seen};
        };
        const before = looks();
        element.focus({preventScroll: true});
        if (document.activeElement !== element) continue;
        const now = looks();
        if ((!now.ring && now.boxShadow === before.boxShadow) || +now.seen === 0) say("focus", `not seen: ${name(element)}`);
        element.blur();
      }
    },
    headings() {
      const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown).map((h) => [+h.tagName[1], name(h)]);
      const first = levels.filter(([level]) => level === 1).length;
      if (first !== 1) say("headings", `${first} headings of level 1`);
      levels.forEach(([level, text], i) => i && level > levels[i - 1][0] + 1 && say("headings", `a level is skipped: ${text}`));
      if (!document.documentElement.lang) say("headings", "no lang");
    },
  };
  document.querySelectorAll("details").forEach((element) => { element.open = true; });
  kinds.forEach((kind) => checks[kind]());
  return found;
}
