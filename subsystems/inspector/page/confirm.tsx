import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Failure } from './pieces.tsx';
import { LackHint } from './lack.tsx';

/** A change that is told before it is made. `change` returns what has become of it. */
interface Confirmed {
  readonly label: string;
  /** Consequences, told before the change. */
  readonly tells: ComponentChildren;
  readonly yes: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  /** Scope that the token lacks for it. */
  readonly lacks?: string | undefined;
  readonly change: () => Promise<string>;
}

/**
 * A button that says what it will do, and does it when somebody agrees. The focus goes to the question, and back when
 * it is answered.
 */
export function ConfirmButton(props: Confirmed) {
  const { label, tells, yes, isDangerous = false, isDisabled = false, lacks, change } = props;
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [done, setDone] = useState<string | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const agree = useRef<HTMLButtonElement>(null);
  const begin = useRef<HTMLButtonElement>(null);
  const wasAsking = useRef(false);
  useLayoutEffect(() => {
    if (isAsking) agree.current?.focus();
    else if (wasAsking.current) begin.current?.focus();
    wasAsking.current = isAsking;
  }, [isAsking]);
  const run = async (): Promise<void> => {
    if (isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      setDone(await change());
      setAsking(false);
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return (
    <div class={`confirm${isAsking ? ' asking' : ''}`}>
      <button
        ref={begin}
        type="button"
        aria-expanded={isAsking}
        disabled={isDisabled || lacks !== undefined}
        onClick={() => {
          setDone(undefined);
          setError(undefined);
          setAsking(!isAsking);
        }}
      >
        {label}
      </button>
      <LackHint scope={lacks} />
      {isAsking && (
        <div class="question" role="group" aria-label={label}>
          <p>{tells}</p>
          <div class="row">
            <button
              ref={agree}
              type="button"
              class={isDangerous ? 'danger' : 'primary'}
              aria-disabled={isBusy}
              onClick={() => void run()}
            >
              {isBusy ? 'Waiting …' : yes}
            </button>
            <button type="button" onClick={() => setAsking(false)}>
              {isBusy ? 'Do not wait' : 'Cancel'}
            </button>
          </div>
        </div>
      )}
      {done !== undefined && (
        <p class="done" role="status">
          {done}
        </p>
      )}
      {error !== undefined && <Failure error={error} />}
    </div>
  );
}
