/** docs/upgrades.md, "A walk-through": writes its files, runs its commands, compares its answers. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startInProcess } from '../../support/in-process-server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

const DOCUMENT = new URL('../../../docs/upgrades.md', import.meta.url);
const FILES: Readonly<Record<string, string>> = { motoko: 'Guestbook.mo', json: 'actors.json' };

interface Block {
  readonly language: string;
  readonly text: string;
}

/** A command of `curl` and its answer; the page has no other commands. */
interface Command {
  readonly path: string;
  readonly body: string;
  readonly expected: string;
}

function commandsOf(text: string): readonly Command[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [line = '', ...answer] = part.split('\n');
      const match = /^curl -X POST (?:-d '([^']*)' )?'?http:\/\/127\.0\.0\.1:7000(\/[^'\s]*)'?$/.exec(line);
      assert.ok(match?.[2] !== undefined, `no command that this test understands: ${line}`);
      return { path: match[2], body: match[1] ?? '', expected: answer.join('\n') };
    });
}

/** Returns a pattern in which `…` stands for any text, and blanks do not count. */
function patternOf(expected: string): RegExp {
  const parts = expected.replaceAll(/\s/g, '').split('…');
  return new RegExp(`^${parts.map((part) => part.replaceAll(/[^\w"]/g, String.raw`\$&`)).join('.*')}$`);
}

test('what docs/upgrades.md shows is what happens', async (t) => {
  const [, section = ''] = (await readFile(DOCUMENT, 'utf8')).split(/^## .*$/m);
  const blocks: Block[] = [...section.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({
    language,
    text,
  }));
  assert.ok(blocks.length > 8, `${blocks.length} blocks`);
  const folder = await temporaryDirectory();
  let ask: ((command: Command) => Promise<string>) | undefined;
  for (const { language, text } of blocks) {
    const file = FILES[language];
    if (file !== undefined) await writeFile(join(folder, file), text);
    if (language !== 'sh') continue;
    if (ask === undefined) {
      const server = await startInProcess(t, { manifestFile: join(folder, 'actors.json') });
      ask = async ({ path, body }) => (await server.post(path, body)).body;
    }
    for (const command of commandsOf(text)) {
      const answer = await ask(command);
      assert.match(answer.replaceAll(/\s/g, ''), patternOf(command.expected), `${command.path}: ${answer}`);
    }
  }
  assert.ok(ask !== undefined, 'nothing was asked');
});
