import type { CallDraft } from './call-drafts.ts';
import type { Parameter } from './candid/did-types.ts';
import { FormField } from './form.tsx';

/** The form of a draft: a field for each parameter. */
export function FormArguments({
  parameters,
  draft,
  isLossless,
  changed,
}: {
  readonly parameters: readonly Parameter[];
  readonly draft: CallDraft;
  readonly isLossless: boolean;
  readonly changed: () => void;
}) {
  const touched = (): void => {
    draft.isTouched = true;
    draft.recheck(parameters, isLossless);
    changed();
  };
  return (
    <>
      {parameters.map(({ name, type }, index) => {
        const value = draft.values?.[index];
        return (
          value !== undefined && (
            <FormField
              key={index}
              label={name ?? (parameters.length > 1 ? `argument ${index + 1}` : '')}
              type={type}
              value={value}
              problems={draft.problems}
              changed={touched}
            />
          )
        );
      })}
    </>
  );
}
