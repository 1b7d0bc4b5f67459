import { definePlugin } from '../kernel/index.ts';
import { Compiler } from '../subsystems/compiler/index.ts';
import { MopsClosures } from '../subsystems/mops-closure/index.ts';
import { NoMopsClosures } from '../subsystems/mops-closure/no-mops-closures.ts';
import { ProjectClosures } from '../subsystems/mops-closure/project-closures.ts';

interface MopsClosureConfig {
  /** Absolute path of the project; undefined if there is none. */
  readonly project: string | undefined;
}

export const mopsClosurePlugin = definePlugin({
  name: 'mops-closure',
  provides: MopsClosures,
  requires: { compiler: Compiler },
  create: ({ compiler }, { config: { project } }: { readonly config: MopsClosureConfig }) =>
    new ProjectClosures({ compiler, project }),
  disabled: () => new NoMopsClosures(),
  open: (closures) => closures.open(),
});
