import type { ComponentChildren } from 'preact';
import { inertText, shortText } from './inert-text.ts';
import { messageOf } from './messages.ts';
import { useRights } from './use-rights.ts';
import type { ServerVersion } from './shown-actors.ts';
import { ThemeButton } from './theme.tsx';

/** Tells if the rights of the token are shown, and shows or hides them. */
export interface RightsView {
  readonly isOpen: boolean;
  readonly toggle: () => void;
}

export interface FrameProps {
  readonly version: ServerVersion;
  readonly error: unknown;
  readonly hasOpen: boolean;
  readonly hasToken: boolean;
  /** Undefined while rights are not known. */
  readonly rightsView: RightsView | undefined;
  readonly logOut: () => void;
  readonly children: ComponentChildren;
}

/** The head of the page, an error of the stream, and below both the list and what is open. */
export function Frame({ version, error, hasOpen, hasToken, rightsView, logOut, children }: FrameProps) {
  const showsRights = hasToken && rightsView?.isOpen === true;
  return (
    <div class={`app${hasOpen ? ' has-open' : ''}`}>
      <header class="top">
        <h1>
          svc <span>inspector</span>
        </h1>
        <span class="version">
          {inertText(version.number)} <span class="build">{inertText(version.build)}</span>
        </span>
        <span class="grow" />
        {hasToken && (
          <>
            {rightsView !== undefined && <WhoButton {...rightsView} />}
            <button type="button" class="quiet" onClick={logOut}>
              Log out
            </button>
          </>
        )}
        <ThemeButton />
      </header>
      {(error !== undefined || showsRights) && (
        <div class="notes">
          {error !== undefined && (
            <p class="banner" role="alert">
              {inertText(messageOf(error))} — trying again
            </p>
          )}
          {showsRights && <RightsPanel />}
        </div>
      )}
      {children}
    </div>
  );
}

function WhoButton({ isOpen, toggle }: RightsView) {
  const { name } = useRights();
  return (
    <button type="button" class="quiet who" aria-expanded={isOpen} title="What this token may do" onClick={toggle}>
      {name === undefined ? 'Token' : inertText(shortText(name, 24))}
    </button>
  );
}

/** Who the token is, and what it may do, in plain words. */
export function RightsPanel() {
  const { name, caller, isWhole, permissions } = useRights();
  return (
    <section class="panel rights" tabIndex={0} aria-label="What this token may do">
      <h3>{name === undefined ? 'The token of this server' : inertText(shortText(name, 120))}</h3>
      {permissions.length === 0 ? (
        <p>may do nothing.</p>
      ) : (
        <ul>
          {permissions.map(({ words, actors }) => (
            <li key={words}>
              may {inertText(shortText(words, 100))} <strong>{inertText(shortText(actors.join(', '), 2_000))}</strong>
            </li>
          ))}
        </ul>
      )}
      <p class="hint">
        {isWhole ? (
          'It may call in the name of any principal.'
        ) : (
          <>
            Its calls come from <span class="mono">{caller ?? '2vxsx-fae, the anonymous principal'}</span>.
          </>
        )}
      </p>
    </section>
  );
}
