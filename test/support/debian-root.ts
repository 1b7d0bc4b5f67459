/** Roots of Debian packages, made by `mmdebstrap` from the places that this machine's apt knows. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

interface DebianRoot {
  /** Folder, or file that ends with `.tar`. */
  readonly target: string;
  /** Packages beyond those of the variant. */
  readonly packages: readonly string[];
  /** `extract` unpacks, and runs no script; `essential` installs what every Debian has. */
  readonly variant: 'extract' | 'essential';
  /** Default: this machine's. */
  readonly architecture?: string;
}

/** Makes a root of this machine's release; returns the release's name. */
export function makeDebianRoot({ target, packages, variant, architecture }: DebianRoot): string {
  const places = ['/etc/apt/sources.list', ...listed('/etc/apt/sources.list.d', /[.](?:list|sources)$/)];
  const sources = places.filter((path) => existsSync(path)).map((path) => readFileSync(path, 'utf8'));
  const [, suite = ''] = /^VERSION_CODENAME=(\w+)/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [];
  const which = architecture === undefined ? [] : [`--architectures=${architecture}`];
  const args = ['--quiet', `--variant=${variant}`, ...which, `--include=${packages.join()}`, suite, target, '-'];
  execFileSync('mmdebstrap', args, { input: sources.join('\n\n'), stdio: ['pipe', 'inherit', 'inherit'] });
  return suite;
}

function listed(directory: string, pattern: RegExp): readonly string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => pattern.test(name))
    .map((name) => join(directory, name));
}
