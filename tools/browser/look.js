// What a reader of a page would miss: text without contrast, a page wider than its window, what no key reaches.
// Each function gives lines, one for a fault.
window.mmcqLook = (() => {
  const number = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const contrast = (a, b) => {
    const [most, least] = [light(a), light(b)].sort((x, y) => y - x);
    return (most + 0.05) / (least + 0.05);
  };
  const over = (above, below) => {
    const share = above[3] ?? 1;
    return [0, 1, 2].map((at) => above[at] * share + below[at] * (1 - share));
  };
  // The colour of the ground that an element of HTML stands on.
  function ground(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = number(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if ((colour[3] ?? 1) === 1) break;
    }
    return layers.reverse().reduce((below, above) => over(above, below), [255, 255, 255]);
  }
  const name = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ''} "${(element.getAttribute('aria-label') || element.textContent || element.name || '').trim().slice(0, 40)}"`;
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });

  // Text of pictures, on what is painted below it. A checker of HTML does not look at these.
  function pictures() {
    const found = [];
    for (const text of document.querySelectorAll('svg text')) {
      if (!shown(text) || !text.textContent.trim()) continue;
      const box = text.getBoundingClientRect();
      const fill = getComputedStyle(text).fill;
      if (fill === 'none' || box.width === 0) continue;
      const middle = [box.x + box.width / 2, box.y + box.height / 2];
      const svg = text.closest('svg');
      // From the top down: the first filled form, or what the picture lies on. What is scrolled away is on no list.
      let below = ground(svg);
      const forms = document.elementsFromPoint(...middle);
      const form = forms.find((one) => svg.contains(one) && /^(rect|path|polygon|circle)$/.test(one.tagName) && getComputedStyle(one).fill !== 'none');
      if (form) {
        const style = getComputedStyle(form);
        const colour = number(style.fill);
        below = over([...colour.slice(0, 3), (colour[3] ?? 1) * Number(style.fillOpacity) * Number(style.opacity)], below);
      }
      const large = parseFloat(getComputedStyle(text).fontSize) >= 24;
      const has = contrast(over(number(fill), below), below);
      if (has < (large ? 3 : 4.5)) found.push(`text "${text.textContent.trim().slice(0, 40)}" of a picture: contrast ${has.toFixed(2)}, ${fill} on ${below.map(Math.round)}`);
    }
    return found;
  }
  // Colours that mean something: bars, lines and keys of a legend.
  function marks() {
    const found = new Map();
    for (const form of document.querySelectorAll('svg.chart rect, svg.chart polyline, .key, .phase i')) {
      if (!shown(form)) continue;
      const style = getComputedStyle(form);
      const colour = form.closest('svg') ? (form.tagName === 'rect' ? style.fill : style.stroke) : style.backgroundColor;
      if (colour === 'none' || form.getAttribute('opacity') === '0') continue;
      const below = ground(form.closest('svg') ?? form.parentElement);
      const has = contrast(number(colour), below);
      // A rule behind a chart means nothing.
      if (has < 3 && !form.matches('[stroke="#CCCCCC"]')) found.set(colour, `mark of ${colour} on ${below.map(Math.round)}: contrast ${has.toFixed(2)}`);
    }
    return [...found.values()];
  }
  function width() {
    const most = document.documentElement.clientWidth;
    const has = Math.max(document.documentElement.scrollWidth, document.body.scrollWidth);
    if (has <= most) return [];
    const wide = [...document.querySelectorAll('body *')].filter((one) => shown(one) && one.getBoundingClientRect().right > most + 1 && !one.parentElement.closest('.scroll, pre'));
    return [`the page is ${has} pixels wide in a window of ${most}: ${wide.slice(0, 3).map(name).join(', ')}`];
  }
  const reached = () => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((one) => shown(one) && !one.disabled);
  let met = new Set();
  function begin() {
    met = new Set();
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    return reached().length;
  }
  // What has the keyboard now; "" where it has left the page or has come round.
  function now() {
    const element = document.activeElement;
    if (!element || element === document.body || met.has(element)) return null;
    met.add(element);
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const lines = [];
    if (!element.matches(':focus-visible') || style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 1) lines.push(`${name(element)}: nothing shows that the keyboard is there`);
    else if (style.outlineStyle !== 'auto' && contrast(number(style.outlineColor), ground(element.parentElement)) < 3) lines.push(`${name(element)}: its outline is hard to see`);
    if (box.bottom < 0 || box.top > innerHeight) lines.push(`${name(element)}: outside of the window while the keyboard is there`);
    return lines;
  }
  const missed = () => reached().filter((one) => !met.has(one)).map((one) => `${name(one)}: no Tab reaches it`);
  const scrolled = () => [...document.querySelectorAll('body *')].filter((one) => shown(one) && !one.closest('svg') && one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX) && one.tabIndex < 0).map((one) => `${name(one)}: scrolls, and has no tabindex`);
  return { pictures, marks, width, begin, now, missed, scrolled };
})();
