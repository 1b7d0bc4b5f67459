/**
 * Completions for bash, zsh and fish, and the manual page: made from the declarations of the flags, like `--help`, when
 * the package is put together (package.ts).
 */
import type { Flag } from '../config/flag.ts';
import { flagsByName, variablesByName } from '../config/flags.ts';
import { builtinPlugins } from '../plugins/index.ts';

/** A flag as shells see it. */
interface Word {
  readonly name: string;
  readonly short: string | undefined;
  /** First sentence of the summary. */
  readonly text: string;
  readonly placeholder: string | undefined;
  readonly value: 'none' | 'file' | 'folder' | 'choice' | 'other';
  readonly choices: readonly string[];
}

/** Returns the files by their paths in the package. */
export function shellFiles(version: string): ReadonlyMap<string, string> {
  const words = allWords();
  return new Map([
    ['share/completions/svc.bash', bash(words)],
    ['share/completions/_svc', zsh(words)],
    ['share/completions/svc.fish', fish(words)],
    ['share/man/svc.1', manual(version)],
  ]);
}

function allWords(): readonly Word[] {
  const off = builtinPlugins
    .filter(({ neededBecause }) => neededBecause === undefined)
    .map(({ name }) => ({ ...NO_VALUE, name: `no-${name}`, text: `Turn ${name} off` }));
  return [...[...flagsByName].map(([name, flag]) => wordOf(name, flag)), ...off];
}

const NO_VALUE = { short: undefined, placeholder: undefined, value: 'none', choices: [] } as const;

function wordOf(name: string, { short, summary, placeholder }: Flag<unknown>): Word {
  const [text = ''] = summary.split(/[.:;](?=\s|$)/);
  const choices = placeholder !== undefined && /^[a-z]+(?:\|[a-z]+)+$/.test(placeholder) ? placeholder.split('|') : [];
  const value = placeholder === undefined ? 'none' : choices.length > 0 ? 'choice' : (PATHS[placeholder] ?? 'other');
  return { name, short, text, placeholder, value, choices };
}

const PATHS: Readonly<Record<string, 'file' | 'folder'>> = { FILE: 'file', DIR: 'folder' };

const spellings = ({ name, short }: Word): readonly string[] =>
  short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`];

function bash(words: readonly Word[]): string {
  const caseOf = (value: Word['value'], action: string): string => {
    const names = words.filter((word) => word.value === value).flatMap(spellings);
    return `    ${names.join('|')})\n      ${action} ;;`;
  };
  const choices = words
    .filter(({ value }) => value === 'choice')
    .map(
      (word) =>
        `    ${spellings(word).join('|')})\n      mapfile -t COMPREPLY < <(compgen -W "${word.choices.join(' ')}" -- "$cur"); return ;;`,
    );
  return `# Completion of svc for bash.
_svc() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  # --flag=value comes as three words.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  COMPREPLY=()
  case $prev in
${caseOf('file', 'compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return')}
${caseOf('folder', 'compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return')}
${choices.join('\n')}
${caseOf('other', 'return')}
  esac
  mapfile -t COMPREPLY < <(compgen -W "${words.flatMap(spellings).join(' ')}" -- "$cur")
}
complete -F _svc svc
`;
}

function zsh(words: readonly Word[]): string {
  const specs = words.map((word) => {
    const text = word.text.replaceAll(/[[\]:\\]/g, String.raw`\$&`).replaceAll("'", String.raw`'\''`);
    const actions = { none: '', file: ':file:_files', folder: ':folder:_files -/', other: `:${word.placeholder}: ` };
    const action = word.value === 'choice' ? `:value:(${word.choices.join(' ')})` : actions[word.value];
    const names = spellings(word);
    const spelled = names.length > 1 ? `'(${names.join(' ')})'{${names.join(',')}}` : `${names[0]}`;
    return `  ${spelled}'[${text}]${action}'`;
  });
  return `#compdef svc\n_arguments \\\n${specs.join(' \\\n')}\n`;
}

function fish(words: readonly Word[]): string {
  const lines = words.map((word) => {
    const short = word.short === undefined ? '' : ` -s ${word.short}`;
    const values = { none: '', file: ' -r -F', folder: " -x -a '(__fish_complete_directories)'", other: ' -x' };
    const value = word.value === 'choice' ? ` -x -a '${word.choices.join(' ')}'` : values[word.value];
    const text = word.text.replaceAll(/[\\']/g, String.raw`\$&`);
    return `complete -c svc -l ${word.name}${short}${value} -d '${text}'`;
  });
  return `# Completion of svc for fish.\ncomplete -c svc -f\n${lines.join('\n')}\n`;
}

/** Escapes text for troff: backslashes and hyphens; a line must not begin with a dot or an apostrophe. */
function troff(text: string): string {
  return text
    .replaceAll('\\', String.raw`\e`)
    .replaceAll('-', String.raw`\-`)
    .replaceAll(/^(?=['.])/gm, String.raw`\&`);
}

function manual(version: string): string {
  const entryOf = (usage: string, { summary, defaultText, variable }: Flag<unknown>): string => {
    const notes = [
      defaultText === undefined ? '' : `Default: ${defaultText}.`,
      variable === undefined ? '' : `Also read from ${variable}.`,
    ];
    return `.TP\n.B ${troff(usage)}\n${troff([summary, ...notes].filter((part) => part !== '').join(' '))}`;
  };
  const options = [...flagsByName].map(([name, flag]) => {
    const value = flag.placeholder === undefined ? '' : ` ${flag.placeholder}`;
    return entryOf(`${flag.short === undefined ? '' : `-${flag.short}, `}--${name}${value}`, flag);
  });
  const off = builtinPlugins
    .filter(({ neededBecause }) => neededBecause === undefined)
    .map(({ name }) => `.TP\n.B ${troff(`--no-${name}`)}\nTurns the part ${troff(name)} off.`);
  const variables = [...variablesByName].map(([name, flag]) => entryOf(name, flag));
  return `.TH SVC 1 "" "svc ${troff(version)}" "User Commands"
.SH NAME
svc ${String.raw`\-`} a host of WebAssembly actors
.SH SYNOPSIS
.B svc
.RI [ flags ]
.SH DESCRIPTION
Hosts actors on one machine: WebAssembly modules with the semantics of Internet Computer canisters. It takes flags only;
a manifest names the actors.
.SH OPTIONS
${[...options, ...off].join('\n')}
.SH ENVIRONMENT
${variables.join('\n')}
.SH EXIT STATUS
.TP
.B 0
a graceful stop, or a check without findings
.TP
.B 1
the start or a stop failed, or a check has found that a start would
.TP
.B 2
bad usage
.SH SIGNALS
SIGTERM, SIGINT and SIGHUP stop the server in order; a second one a second later ends it at once.
`;
}
