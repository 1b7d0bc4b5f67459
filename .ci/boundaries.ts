/**
 * Checks the import table (`import-rules.ts`) and that it really was checked: dependency-cruiser reads nothing
 * and reports success when it finds no parser it knows, and beside TypeScript 7 the only one is @swc/core.
 *
 * Two things its swc parser does not do are added here: it stops at `using` declarations, and it does not tell
 * `import type` apart, so the rules run twice, once with and once without the imports that load nothing.
 */
import { globSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { cruise, type IForbiddenRuleType, type IModule } from 'dependency-cruiser';
import { always, atRunTime } from './import-rules.ts';

const ROOMS = ['kernel', 'subsystems', 'plugins', 'config', 'client', 'test', 'benchmarks', '.ci'];

interface Item {
  readonly type: string;
  readonly typeOnly?: boolean;
  readonly decls?: readonly unknown[];
}
interface Visitor {
  visitStatement: (this: Visitor, statement: Item) => Item;
  visitModuleItems: (this: Visitor, items: readonly Item[]) => readonly Item[];
  visitVariableDeclarators: (this: Visitor, declarations: readonly unknown[]) => readonly unknown[];
}
const require = createRequire(import.meta.url);
// The very object that dependency-cruiser derives its own visitor from.
const { Visitor } = require('@swc/core/Visitor.js') as { Visitor: { prototype: Visitor } };

let seesTypes = true;
teachVisitor(Visitor.prototype);

function teachVisitor(visitor: Visitor): void {
  const { visitStatement, visitModuleItems } = visitor;
  visitor.visitStatement = function (statement) {
    if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement);
    this.visitVariableDeclarators(statement.decls ?? []);
    return statement;
  };
  visitor.visitModuleItems = function (items) {
    return visitModuleItems.call(this, seesTypes ? items : items.filter(({ typeOnly }) => typeOnly !== true));
  };
}

async function check(rules: readonly IForbiddenRuleType[], withTypes: boolean): Promise<readonly IModule[]> {
  seesTypes = withTypes;
  const { output } = await cruise(ROOMS, {
    validate: true,
    ruleSet: { forbidden: rules.map((rule) => ({ severity: 'error', ...rule })) },
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    // The bundler of the inspector's page checks the page's imports (build-inspector.ts); swc is not asked to read JSX
    // here. Plugins to copy import the package, as fixtures do.
    exclude: { path: '^test/fixtures/|^config/examples/|[.]tsx$' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  });
  if (typeof output === 'string') throw new Error(`dependency-cruiser answered with text: ${output}`);
  for (const { from, to, rule } of output.summary.violations) {
    const comment = rules.find(({ name }) => name === rule.name)?.comment ?? '';
    process.exitCode = 1;
    process.stderr.write(`${from} → ${to}\n  ${rule.name}: ${comment}\n`);
  }
  return output.modules;
}

const modules = await check(always, true);
await check(atRunTime, false);

const cruised = new Set(modules.filter(({ dependencies }) => dependencies.length > 0).map(({ source }) => source));
const onDisk = ROOMS.flatMap((room) => globSync(`${room}/**/*.ts`, { cwd: resolve(import.meta.dirname, '..') }));
const known = new Set(modules.map(({ source }) => source));
const missed = onDisk.filter((file) => !known.has(file) && !file.startsWith('test/fixtures/'));
if (missed.length > 0 || cruised.size < onDisk.length / 2) {
  process.exitCode = 1;
  process.stderr.write(
    `the boundaries were not really checked: of ${onDisk.length} files ${missed.length} were not read and only ` +
      `${cruised.size} have imports; is @swc/core installed? ${missed.slice(0, 5).join(' ')}\n`,
  );
}
if (process.exitCode === undefined)
  process.stdout.write(`boundaries: ${onDisk.length} files keep to the import table\n`);
