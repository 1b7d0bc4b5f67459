import { useEffect } from 'preact/hooks';
import { useRedraw } from './hooks.ts';
import { inertText, shortText } from './inert-text.ts';
import { deleteCall, onSavedCalls, SAVED_KEY, type SavedCall, savedCalls } from './saved-calls.ts';

/** Returns the saved calls, as this tab and others change them. */
function useSavedCalls(): readonly SavedCall[] {
  const redraw = useRedraw();
  useEffect(() => {
    const ended = onSavedCalls(redraw);
    const listen = ({ key }: StorageEvent): void => {
      if (key === SAVED_KEY || key === null) redraw();
    };
    addEventListener('storage', listen);
    return () => {
      ended();
      removeEventListener('storage', listen);
    };
  }, []);
  return savedCalls();
}

/** The calls that somebody has saved in this browser: those of this actor first. */
export function SavedCalls({ actor, open }: { readonly actor: string; readonly open: (saved: SavedCall) => void }) {
  const all = useSavedCalls();
  if (all.length === 0) return null;
  const isOwn = (saved: SavedCall): boolean => saved.actor === actor;
  const shown = [...all.filter(isOwn), ...all.filter((saved) => !isOwn(saved))];
  return (
    <details class="saved">
      <summary>Saved calls ({all.length})</summary>
      <ul aria-label="Saved calls">
        {shown.map((saved) => {
          const name = inertText(shortText(saved.name, 80));
          const where = `${inertText(shortText(saved.actor, 64))} · ${inertText(shortText(saved.method, 60))}`;
          return (
            <li key={`${saved.actor}/${saved.name}`}>
              <button type="button" class="method" title={`${name}: ${where}`} onClick={() => open(saved)}>
                <span class="name">{name}</span>
                {!isOwn(saved) && <span class="kind">{inertText(shortText(saved.actor, 20))}</span>}
              </button>
              <button
                type="button"
                class="quiet"
                aria-label={`Delete saved call ${name}`}
                title="Delete"
                onClick={() => deleteCall(saved)}
              >
                ✕
              </button>
            </li>
          );
        })}
      </ul>
    </details>
  );
}
