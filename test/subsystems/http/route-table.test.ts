import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { routesDocument } from '../../support/routes-document.ts';

test('docs/http.md has the table of routes', (t) => {
  const file = join(import.meta.dirname, '../../../docs/http.md');
  const text = readFileSync(file, 'utf8').replace(
    /(<!-- routes: .*?-->\n)[^]*?(<!-- end of routes -->)/,
    (_whole, begin: string, end: string) => `${begin}\n${routesDocument()}\n\n${end}`,
  );
  t.assert.fileSnapshot(text, file, { serializers: [(value) => String(value).trimEnd()] });
});
