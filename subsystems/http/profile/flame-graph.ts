/** Flame graphs as SVG without scripts: the caller stands below, and a function is as wide as its instructions. */
import type { CallNode } from './call-tree.ts';

const WIDTH = 1200;
const ROW_HEIGHT = 18;
const TEXT_HEIGHT = 12;
const MARGIN = 3;
/** About the width of a character. */
const CHARACTER_WIDTH = 7;
/** Narrower functions are not drawn. */
const WIDTH_MIN = 0.3;

export function flameGraphOf(root: CallNode): string {
  const rows = depthOf(root);
  const height = rows * ROW_HEIGHT;
  const parts: string[] = [];
  const draw = (node: CallNode, x: number, depth: number): void => {
    const width = root.total === 0 ? WIDTH : (node.total / root.total) * WIDTH;
    if (width < WIDTH_MIN) return;
    parts.push(frameOf(node, root.total, x, height - (depth + 1) * ROW_HEIGHT, width));
    let childX = x;
    for (const child of node.children.values()) {
      draw(child, childX, depth + 1);
      childX += (child.total / Math.max(1, root.total)) * WIDTH;
    }
  };
  draw(root, 0, 0);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" ` +
    `font-family="monospace" font-size="${TEXT_HEIGHT}">\n${parts.join('')}</svg>\n`
  );
}

function frameOf({ name, total }: CallNode, all: number, x: number, y: number, width: number): string {
  const share = ((total / Math.max(1, all)) * 100).toFixed(1);
  const title = `${name}: ${total.toLocaleString('en')} instructions, ${share} %`;
  const characters = Math.floor((width - 2 * MARGIN) / CHARACTER_WIDTH);
  const text = name.length <= characters ? name : characters < 3 ? '' : `${name.slice(0, characters - 1)}…`;
  const place = `x="${x.toFixed(2)}" y="${y}" width="${width.toFixed(2)}" height="${ROW_HEIGHT - 1}"`;
  const label = text === '' ? '' : `<text x="${(x + MARGIN).toFixed(2)}" y="${y + 13}">${escaped(text)}</text>`;
  return `<g><title>${escaped(title)}</title><rect ${place} fill="${colourOf(name)}"/>${label}</g>\n`;
}

function depthOf({ children }: CallNode): number {
  let depth = 0;
  for (const child of children.values()) depth = Math.max(depth, depthOf(child));
  return depth + 1;
}

/** Returns the same warm colour for the same name; black text reads well on each. */
function colourOf(name: string): string {
  let hash = 0;
  for (const character of name) hash = (Math.imul(hash, 31) + (character.codePointAt(0) ?? 0)) >>> 0;
  return `hsl(${20 + (hash % 35)} ${70 + (hash % 25)}% ${62 + (hash % 12)}%)`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? '');
}
