import { useEffect, useState } from 'preact/hooks';
import type { Api } from './api.ts';
import { ConfirmButton } from './confirm.tsx';
import { bytesText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { InitArguments, type InitForm, useInitForm } from './init-arguments.tsx';
import { Labelled } from './labelled.tsx';
import { moduleInterface, type ModuleInterface } from './module-interface.ts';
import { messageOf } from './messages.ts';
import { ModuleDrop } from './module-drop.tsx';
import { Failure, Hint } from './pieces.tsx';

/** Names that the server takes, in short: it says the rest itself. */
const NAME_CHARACTERS_MAX = 64;

interface InstallProps {
  readonly api: Api;
  readonly reinstalled?: { readonly name: string; readonly memoryBytes: number };
  readonly installed: (name: string) => void;
}

/** Input of the form as typed. */
interface Typed {
  readonly name: string;
  readonly file: File | undefined;
  readonly args: string;
  readonly did: string;
  readonly cycles: string;
}

const NOTHING: Typed = { name: '', file: undefined, args: '', did: '', cycles: '' };

/** Returns what the chosen module says of itself, or what is wrong with its file. */
function useModule(file: File | undefined): { readonly told?: ModuleInterface; readonly problem?: string } {
  const [state, setState] = useState<{ readonly told?: ModuleInterface; readonly problem?: string }>({});
  useEffect(() => {
    let isCurrent = true;
    setState({});
    const look = async (chosen: File): Promise<void> => {
      try {
        const told = await moduleInterface(chosen);
        if (isCurrent) setState({ told });
      } catch (failure) {
        if (isCurrent) setState({ problem: messageOf(failure) });
      }
    };
    if (file !== undefined) void look(file);
    return () => {
      isCurrent = false;
    };
  }, [file]);
  return state;
}

type FieldProblems = Readonly<Record<'name' | 'file' | 'args' | 'cycles', string | undefined>>;

function problemsOf(typed: Typed, name: string, initTypes: string | undefined, init: InitForm): FieldProblems {
  return {
    name: name === '' ? 'type a name' : name.length > NAME_CHARACTERS_MAX ? 'at most 64 characters' : undefined,
    file: typed.file === undefined ? 'choose a module' : undefined,
    args: init.isShown ? undefined : argumentProblem(initTypes, typed.args),
    cycles: /^\d*$/.test(plainDigits(typed.cycles)) ? undefined : 'expected decimal digits',
  };
}

function plainDigits(text: string): string {
  return text.replaceAll(/[\s_]/g, '');
}

/** Form that installs a new actor; with `reinstalled`, gives that actor a module with which it starts afresh. */
export function InstallForm({ api, reinstalled, installed }: InstallProps) {
  const [typed, setTyped] = useState(NOTHING);
  const [isTried, setTried] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const { told, problem: fileProblem } = useModule(typed.file);
  const name = reinstalled?.name ?? typed.name.trim();
  const init = useInitForm(api, told);
  const problems = problemsOf(typed, name, told?.initTypes, init);
  const shown: FieldProblems = isTried ? problems : { ...NO_PROBLEMS };
  const change = (part: Partial<Typed>): void => setTyped((before) => ({ ...before, ...part }));
  const send = async (): Promise<string> => {
    setTried(true);
    const { file } = typed;
    const args = init.isShown ? init.write() : typed.args.trim();
    const isWrong = fileProblem !== undefined || Object.values(problems).some((problem) => problem !== undefined);
    if (file === undefined || args === undefined || isWrong)
      throw new Error('something is missing or wrong above: nothing was sent');
    const isReinstallation = reinstalled !== undefined;
    const cycles = isReinstallation ? '' : plainDigits(typed.cycles);
    await api.install({ name, module: file, args, did: typed.did.trim(), cycles, isReinstallation });
    setTried(false);
    change({ file: undefined });
    installed(name);
    return `${inertText(name)} ${isReinstallation ? 'has started afresh' : 'is installed'}.`;
  };
  const submit = async (): Promise<void> => {
    if (isBusy || reinstalled !== undefined) return;
    setBusy(true);
    setError(undefined);
    try {
      await send();
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return (
    <form
      class="install"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {reinstalled === undefined && <NameField typed={typed} change={change} problem={shown.name} />}
      <ModuleDrop file={typed.file} choose={(file) => file !== undefined && change({ file })} />
      <p class="problem">{inertText(fileProblem ?? shown.file ?? '')}</p>
      <ModuleFields typed={typed} change={change} told={told} problem={shown.args} init={init} />
      {reinstalled === undefined ? (
        <NewActor typed={typed} change={change} problem={shown.cycles} isBusy={isBusy} error={error} />
      ) : (
        <Reinstallation name={name} memoryBytes={reinstalled.memoryBytes} change={send} />
      )}
    </form>
  );
}

const NO_PROBLEMS: FieldProblems = { name: undefined, file: undefined, args: undefined, cycles: undefined };

interface PartProps {
  readonly typed: Typed;
  readonly change: (part: Partial<Typed>) => void;
  readonly problem: string | undefined;
}

function NameField({ typed, change, problem }: PartProps) {
  return (
    <Labelled label="Name" problem={problem}>
      {(field) => (
        <input
          {...field}
          autocomplete="off"
          spellcheck={false}
          value={typed.name}
          onInput={(event) => change({ name: event.currentTarget.value })}
        />
      )}
    </Labelled>
  );
}

/** Fields that depend on the module: the arguments of its hook, and an interface if it carries none. */
function ModuleFields({
  typed,
  change,
  problem,
  told,
  init,
}: PartProps & { readonly told: ModuleInterface | undefined; readonly init: InitForm }) {
  return (
    <>
      <InitArguments
        init={init}
        types={told?.initTypes}
        text={typed.args}
        setText={(args) => change({ args })}
        problem={problem}
      />
      {told !== undefined && told.service === undefined && (
        <Labelled label="Interface (.did)" type="the module carries none; may be left out">
          {(field) => (
            <textarea
              {...field}
              class="mono"
              rows={2}
              spellcheck={false}
              value={typed.did}
              onInput={(event) => change({ did: event.currentTarget.value })}
            />
          )}
        </Labelled>
      )}
    </>
  );
}

function NewActor({
  typed,
  change,
  problem,
  isBusy,
  error,
}: PartProps & { readonly isBusy: boolean; readonly error: unknown }) {
  return (
    <>
      <Labelled label="Cycles" type="decimal; the host's default if empty" problem={problem}>
        {(field) => (
          <input
            {...field}
            inputMode="numeric"
            autocomplete="off"
            value={typed.cycles}
            onInput={(event) => change({ cycles: event.currentTarget.value })}
          />
        )}
      </Labelled>
      <div class="row">
        <button type="submit" class="primary" aria-disabled={isBusy}>
          {isBusy ? 'Installing …' : 'Install'}
        </button>
        <Hint>Runs the module's init; if that fails, there is no actor.</Hint>
      </div>
      {error !== undefined && <Failure error={error} />}
    </>
  );
}

function Reinstallation({
  name,
  memoryBytes,
  change,
}: {
  readonly name: string;
  readonly memoryBytes: number;
  readonly change: () => Promise<string>;
}) {
  return (
    <ConfirmButton
      label="Reinstall"
      tells={
        `The state of ${inertText(shortText(name, 60))}, ${bytesText(memoryBytes)}, is lost, and the module starts ` +
        'afresh; id, name, controllers and balance stay. Whoever waits for a call is rejected. If init fails, nothing ' +
        'has changed.'
      }
      yes="Reinstall, and lose the state"
      isDangerous
      change={change}
    />
  );
}

/** Returns what is wrong with arguments of these types, as far as can be seen without the server. */
function argumentProblem(types: string | undefined, args: string): string | undefined {
  const text = args.trim();
  if (text === '') {
    return types === undefined || types === '()' ? undefined : `the module takes ${shortText(types, 200)}`;
  }
  if (!/^[([]/.test(text)) return 'expected (…), Candid text, or […], a JSON array';
  if (types === '()' && !/^(?:\(\s*\)|\[\s*\])$/.test(text)) return 'the module takes no arguments';
  if (text.startsWith('[')) {
    try {
      JSON.parse(text);
    } catch (error) {
      return messageOf(error);
    }
  }
  return undefined;
}
