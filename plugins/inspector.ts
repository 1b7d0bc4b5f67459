import { definePlugin } from '../kernel/index.ts';
import { BuiltInspector } from '../subsystems/inspector/built-inspector.ts';
import { Inspector } from '../subsystems/inspector/index.ts';
import { NoInspector } from '../subsystems/inspector/no-inspector.ts';

export const inspectorPlugin = definePlugin({
  name: 'inspector',
  provides: Inspector,
  requires: {},
  create: () => new BuiltInspector(),
  disabled: () => new NoInspector(),
});
