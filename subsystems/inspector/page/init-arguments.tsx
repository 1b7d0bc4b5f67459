import { useEffect, useState } from 'preact/hooks';
import type { Api } from './api.ts';
import { CallDraft } from './call-drafts.ts';
import type { Parameter } from './candid/did-types.ts';
import { FormArguments } from './form-arguments.tsx';
import { useRedraw } from './hooks.ts';
import { Labelled } from './labelled.tsx';
import type { ModuleInterface } from './module-interface.ts';
import { Hint } from './pieces.tsx';

/** Arguments of a module's `init`, as a form where their types are known. */
export interface InitForm {
  /** True if the form is shown, and not the text. */
  readonly isShown: boolean;
  /** Undefined: there is no form. */
  readonly draft: CallDraft | undefined;
  readonly parameters: readonly Parameter[];
  /** Returns the arguments as JSON; undefined, with the problems at their places, if something is wrong. */
  readonly write: () => string | undefined;
  readonly changed: () => void;
  readonly showText: (isText: boolean) => void;
}

const NO_PARAMETERS: readonly Parameter[] = [];
/** Interface of a module that tells the types of its arguments alone. */
const NO_SERVICE = 'service : {}';

/** Asks the server for the types of the chosen module's arguments. */
export function useInitForm(api: Api, told: ModuleInterface | undefined): InitForm {
  const [parameters, setParameters] = useState(NO_PARAMETERS);
  const [draft, setDraft] = useState<CallDraft | undefined>(undefined);
  const [isText, showText] = useState(false);
  const redraw = useRedraw();
  useEffect(() => {
    const stop = new AbortController();
    const ask = async ({ service = NO_SERVICE, initTypes }: ModuleInterface): Promise<void> => {
      try {
        const { init = NO_PARAMETERS } = await api.typesOf(service, initTypes, stop.signal);
        if (init.length === 0) return;
        setParameters(init);
        setDraft(new CallDraft(init));
      } catch {
        // The arguments are text then; the server says at the installation what is wrong with the interface.
      }
    };
    setParameters(NO_PARAMETERS);
    setDraft(undefined);
    showText(false);
    if (told?.initTypes !== undefined) void ask(told);
    return () => stop.abort();
  }, [told, api]);
  return {
    isShown: draft?.values !== undefined && !isText,
    draft,
    parameters,
    write: () => {
      const json = draft?.write(parameters, false);
      redraw();
      return json;
    },
    changed: redraw,
    showText,
  };
}

interface InitArgumentsProps {
  readonly init: InitForm;
  /** Types as the module tells them; undefined: they are not known. */
  readonly types: string | undefined;
  readonly text: string;
  readonly setText: (text: string) => void;
  readonly problem: string | undefined;
}

/** The arguments as a form, or as text. */
export function InitArguments({ init, types, text, setText, problem }: InitArgumentsProps) {
  const { draft, parameters, isShown } = init;
  const [unread, setUnread] = useState<string | undefined>(undefined);
  const choose = (isText: boolean): void => {
    if (draft === undefined) return;
    setUnread(undefined);
    if (isText) {
      const written = draft.isTouched ? draft.writeCandid(parameters, false) : '';
      init.changed();
      if (written === undefined) return;
      setText(written);
    } else if (text.trim() !== '' && !readInto(draft, text, parameters)) {
      return setUnread(
        draft.jsonProblem ?? 'Candid text does not become a form: write a JSON array, or empty the field',
      );
    }
    init.showText(isText);
  };
  return (
    <>
      {isShown && draft !== undefined ? (
        <fieldset class="field">
          <legend class="label">
            <span class="field-name">Arguments of init</span>
          </legend>
          <div class="nested">
            <FormArguments parameters={parameters} draft={draft} isLossless={false} changed={init.changed} />
          </div>
        </fieldset>
      ) : (
        <Labelled
          label="Arguments of init"
          type={types ?? 'as Candid text or a JSON array'}
          problem={unread ?? problem}
        >
          {(field) => (
            <textarea
              {...field}
              class="mono"
              rows={1}
              spellcheck={false}
              placeholder={types === '()' ? 'none' : '(record { … }) or [ … ]'}
              value={text}
              onInput={(event) => {
                setUnread(undefined);
                setText(event.currentTarget.value);
              }}
            />
          )}
        </Labelled>
      )}
      {draft?.formProblem !== undefined && <Hint>{draft.formProblem}</Hint>}
      {draft?.values !== undefined && (
        <label class="check">
          <input
            type="checkbox"
            checked={!isShown}
            onChange={(event) => {
              choose(event.currentTarget.checked);
              event.currentTarget.checked = !isShown;
            }}
          />
          As text
        </label>
      )}
    </>
  );
}

/** Reads text into the form: JSON, or the Candid text that the form itself has become. */
function readInto(draft: CallDraft, text: string, parameters: readonly Parameter[]): boolean {
  draft.jsonProblem = undefined;
  if (text.trimStart().startsWith('[')) {
    draft.isJson = true;
    draft.json = text;
    draft.showJson(false, parameters, false);
    const isRead = !draft.isJson;
    draft.isJson = false;
    return isRead;
  }
  return draft.isTouched && draft.writeCandid(parameters, false) === text.trim();
}
