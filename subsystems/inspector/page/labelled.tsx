import { useId } from 'preact/hooks';
import { inertText, shortText } from './inert-text.ts';

interface Field {
  readonly id: string;
  readonly 'aria-invalid': boolean;
  readonly 'aria-describedby': string;
}

/** A field with its label, and below it what is wrong. */
export function Labelled({
  label,
  type,
  problem,
  children,
}: {
  readonly label: string;
  readonly type?: string;
  readonly problem?: string | undefined;
  readonly children: (field: Field) => preact.JSX.Element;
}) {
  const id = useId();
  return (
    <div class="field">
      <label class="label" for={id}>
        <span class="field-name">{label}</span>
        {type !== undefined && <span class="type">{inertText(shortText(type, 400))}</span>}
      </label>
      {children({ id, 'aria-invalid': problem !== undefined, 'aria-describedby': `${id}-problem` })}
      <p class="problem" id={`${id}-problem`}>
        {problem === undefined ? '' : inertText(problem)}
      </p>
    </div>
  );
}
