import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defineCapability, face, type Plugin, ServerError } from '../../kernel/index.ts';
import { type BootPlanOptions, planBoot } from '../../kernel/boot-plan.ts';

interface PluginOptions {
  readonly provides?: string;
  readonly alsoProvides?: readonly string[];
  readonly neededBecause?: string;
  readonly hasDisabledForm?: boolean;
}

function plugin(name: string, requires: readonly string[] = [], options: PluginOptions = {}): Plugin {
  const { provides = name, alsoProvides = [], neededBecause, hasDisabledForm = false } = options;
  return {
    name,
    provides: defineCapability<unknown>(provides),
    alsoProvides: alsoProvides.map((more) => face(defineCapability<unknown>(more), (made) => made)),
    requires: Object.fromEntries(requires.map((required) => [required, defineCapability<unknown>(required)])),
    create: () => ({}),
    ...(neededBecause !== undefined && { neededBecause }),
    ...(hasDisabledForm && { disabled: () => ({}) }),
  };
}

function plan(plugins: readonly Plugin[], options: Partial<BootPlanOptions> = {}): readonly string[] {
  const planned = planBoot({ plugins, disabled: new Set(), ambient: [defineCapability<unknown>('clock')], ...options });
  return planned.map((each) => each.plugin.name);
}

function refusal(work: () => unknown): { readonly code: string; readonly lines: readonly string[] } {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof ServerError);
    return { code: error.code, lines: error.message.split('\n') };
  }
  return assert.fail('the plan was accepted');
}

test('what is required comes first, and list order decides the rest', () => {
  const plugins = [plugin('http', ['canisters', 'clock']), plugin('b'), plugin('canisters', ['a', 'b']), plugin('a')];
  assert.deepEqual(plan(plugins), ['b', 'a', 'canisters', 'http']);
  assert.deepEqual(plan([plugin('z'), plugin('y'), plugin('x')]), ['z', 'y', 'x']);
});

test('every gap, duplicate and circle is named in one error', () => {
  const { code, lines } = refusal(() =>
    plan([
      plugin('scheduler', ['storage']),
      plugin('a', ['b']),
      plugin('b', ['c']),
      plugin('c', ['b', 'metrics']),
      plugin('self', ['self']),
      plugin('twin', [], { provides: 'a' }),
      plugin('watch', [], { provides: 'clock' }),
      plugin('watch', [], { provides: 'other' }),
    ]),
  );
  assert.equal(code, 'boot-plan');
  assert.deepEqual(lines, [
    "plugins 'a' and 'twin' both provide 'a': keep one of them",
    "plugin 'watch' provides 'clock', which the kernel provides itself",
    "two plugins are called 'watch': give one of them another name",
    "plugin 'scheduler' requires 'storage', which no plugin provides",
    "plugin 'c' requires 'metrics', which no plugin provides",
    'plugins require each other in a circle: b → c → b; take one of these requirements out',
    'plugins require each other in a circle: self → self; take one of these requirements out',
  ]);
});

test('a plugin turned off provides its disabled form, or nothing', () => {
  const plugins = [plugin('auth', [], { hasDisabledForm: true }), plugin('metrics'), plugin('http', ['auth'])];
  const planned = planBoot({ plugins, disabled: new Set(['auth', 'metrics']), ambient: [] });
  assert.deepEqual(
    planned.map((each) => [each.plugin.name, each.isEnabled]),
    [
      ['auth', false],
      ['http', true],
    ],
  );
});

test('turning off what another plugin requires names both', () => {
  assert.deepEqual(
    refusal(() => plan([plugin('storage'), plugin('http', ['storage'])], { disabled: new Set(['storage']) })),
    {
      code: 'plugin-needed',
      lines: ["cannot run without storage: plugin 'http' requires 'storage', which only plugin 'storage' provides"],
    },
  );
});

test('turning off what the server needs is refused with the reason, and an unknown name with the known ones', () => {
  const plugins = [plugin('scheduler', [], { neededBecause: 'every message goes through it' }), plugin('auth')];
  assert.deepEqual(
    refusal(() => plan(plugins, { disabled: new Set(['scheduler', 'shceduler']) })),
    {
      code: 'plugin-needed',
      lines: [
        'cannot run without scheduler: every message goes through it',
        "cannot turn off 'shceduler': there is no such plugin (scheduler, auth)",
      ],
    },
  );
});

test('a further face is provided as the promise is, but not by the disabled form', () => {
  const store = plugin('store', [], { alsoProvides: ['store-setup'], hasDisabledForm: true });
  const user = plugin('user', ['store-setup']);
  assert.deepEqual(plan([user, store]), ['store', 'user']);
  assert.deepEqual(
    refusal(() => plan([user, store], { disabled: new Set(['store']) })),
    {
      code: 'plugin-needed',
      lines: ["cannot run without store: plugin 'user' requires 'store-setup', which only plugin 'store' provides"],
    },
  );
  const twin = plugin('twin', ['user'], { alsoProvides: ['store-setup', 'clock'] });
  assert.deepEqual(refusal(() => plan([store, user, twin])).lines, [
    "plugins 'store' and 'twin' both provide 'store-setup': keep one of them",
    "plugin 'twin' provides 'clock', which the kernel provides itself",
    'plugins require each other in a circle: user → twin → user; take one of these requirements out',
  ]);
});

test('one of two providers may be turned off', () => {
  const plugins = [plugin('disk', [], { provides: 'storage' }), plugin('memory', [], { provides: 'storage' })];
  assert.deepEqual(plan(plugins, { disabled: new Set(['disk']) }), ['memory']);
});
