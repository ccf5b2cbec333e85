// Stands in front of the page under test, in its frame: does for the host what a person does, and tells what a person sees.
(() => {
  const trouble = [];
  window.pwned = 0;
  window.addEventListener('error', (event) => trouble.push('error: ' + event.message));
  window.addEventListener('unhandledrejection', (event) => trouble.push('rejection: ' + event.reason));
  document.addEventListener('securitypolicyviolation', (event) => trouble.push('policy: ' + event.violatedDirective + ' ' + event.blockedURI));
  const all = (what) => Array.from(document.querySelectorAll(what));
  const isSeen = (node) => node.getClientRects().length > 0;
  const verbs = {
    texts: (what) => all(what).map((node) => node.textContent),
    seen: (what) => all(what).filter(isSeen).map((node) => node.textContent),
    attribute: (what, name) => all(what).map((node) => node.getAttribute(name)),
    style: (what, name) => all(what).map((node) => getComputedStyle(node).getPropertyValue(name)),
    click: (what, at = 0) => all(what)[at].click(),
    type: (what, text) => {
      const [node] = all(what);
      node.value = text;
      node.dispatchEvent(new Event('input', { bubbles: true }));
    },
    value: (what) => all(what)[0].value,
    key: (what, key) => {
      all(what)[0].focus();
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      return document.activeElement.getAttribute('aria-label');
    },
    disabled: (what) => all(what)[0].disabled,
    overflow: () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    cut: (what) => all(what).filter((node) => isSeen(node) && node.scrollWidth > node.clientWidth + 1).map((node) => node.textContent),
    unnamed: () => all('button, input, textarea').filter((node) => isSeen(node) && !node.textContent.trim() && !node.getAttribute('aria-label')).length,
    trouble: () => trouble.concat(window.pwned ? ['a payload ran'] : []),
  };
  window.addEventListener('message', (event) => {
    const asked = event.data && event.data.probe;
    if (!asked) return;
    event.stopImmediatePropagation();
    let answer;
    try { answer = verbs[asked.verb](...asked.given); } catch (error) { answer = 'probe: ' + error; }
    window.parent.postMessage({ probed: asked.id, answer }, '*');
  });
})();
