/** Judges what a page looks like: axe-core's rules, and text that is cut, covered or wider than the screen. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const HEIGHT = 800;

/** Widths of a telephone, a small and a very large screen. */
const WIDTHS = [360, 1024, 2560] as const;
const THEMES = ['light', 'dark'] as const;

/** Returns the rules of axe-core that the page breaks, with the elements: empty is clean. */
async function axeFaults(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(`${AXE}; undefined`);
  return page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
      id + ': ' + target.join(' ') + ': ' + failureSummary)))`);
}

/**
 * Returns texts that are outside of what clips them, or of the screen, and pairs of texts that lie on each other. What
 * the keyboard can scroll, and a table, may be wider than its place; an ellipsis is no cut where
 * the title has the text.
 */
async function textFaults(page: Page): Promise<readonly string[]> {
  return page.evaluate(`(() => {
    const UNSEEN = '.offscreen, noscript, script, style, option, svg';
    const faults = [];
    const rects = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (node.data.trim() === '' || element.closest(UNSEEN) !== null) continue;
      if (!element.checkVisibility({ visibilityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const told = JSON.stringify(node.data.slice(0, 40)) + ' in ' + (element.className || element.tagName);
      let scrolls = false;
      let [left, right, top, bottom] = [0, innerWidth, -Infinity, Infinity];
      for (let at = element; at !== null; at = at.parentElement) {
        const style = getComputedStyle(at);
        if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
        const box = at.getBoundingClientRect();
        [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        if (/auto|scroll/.test(style.overflowX) && (at.tabIndex >= 0 || at.matches('.scroll'))) scrolls = true;
        else if (style.textOverflow === 'ellipsis' && at.closest('[title]') !== null) scrolls = true;
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
      }
      for (const rect of range.getClientRects()) {
        if (!scrolls && (rect.left < left - 1.5 || rect.right > right + 1.5))
          faults.push('cut: ' + told + ' from ' + rect.left + ' to ' + rect.right + ' in ' + left + ' to ' + right);
        if (rect.bottom > top && rect.top < bottom && rect.right > left && rect.left < right)
          rects.push({
            rect: {
              left: Math.max(rect.left, left),
              right: Math.min(rect.right, right),
              top: Math.max(rect.top, top),
              bottom: Math.min(rect.bottom, bottom),
            },
            told,
            node,
          });
      }
    }
    for (const [index, { rect: a, told, node }] of rects.entries()) {
      for (const { rect: b, told: other, node: second } of rects.slice(index + 1)) {
        if (node === second) continue;
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 3 && high > 5) faults.push('overlap: ' + told + ' and ' + other);
      }
    }
    if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is wider than the screen');
    return faults.slice(0, 20);
  })()`);
}

/**
 * Asserts that what the page shows now is clean at each width in each theme. With the variable `SVC_LOOK_PICTURES`,
 * pictures are left in that folder, for eyes.
 */
export async function assertLook(page: Page, screen: string): Promise<void> {
  const faults: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const folder = process.env['SVC_LOOK_PICTURES'];
      if (folder !== undefined) await page.screenshot({ path: `${folder}/${screen}-${width}-${colorScheme}.png` });
      for (const fault of await axeFaults(page)) faults.push(`${width} ${colorScheme}: ${fault}`);
    }
    for (const fault of await textFaults(page)) faults.push(`${width}: ${fault}`);
  }
  assert.deepEqual(faults, [], screen);
}
