import type { ComponentChildren, RefObject } from 'preact';
import { stateOf } from './actor-state.ts';
import type { ListedActor } from './api.ts';
import { bytesText, largeText, rateText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';
import { isLargestFirst, type ListPlace, PAGE_ACTORS, SORT_TITLES, type Sort } from './list-place.ts';
import type { ShownActors } from './shown-actors.ts';
import { rates, type Samples } from './samples.ts';
import { RateLine } from './sparkline.tsx';

interface ActorListProps {
  readonly shown: ShownActors;
  /** Name of the open actor. */
  readonly selected: string | undefined;
  readonly list: ListPlace;
  readonly searchRef: RefObject<HTMLInputElement | null>;
  readonly listRef: RefObject<HTMLDivElement | null>;
  readonly open: (actor: ListedActor) => void;
  /** Opens the first actor that the search finds, once it is known. */
  readonly openFirst: () => void;
}

/** List of the actors of one page, with a search by name. */
export function ActorList(props: ActorListProps) {
  const { list, listRef, open } = props;
  const { actors, samples, hasMore, isLoading } = props.shown;
  const { filter, cursor, setCursor } = list;
  return (
    <nav class="actors" aria-label="Actors">
      <Search {...props} />
      <Order list={list} />
      <div
        ref={listRef}
        class="list"
        role={actors.length === 0 ? 'group' : 'listbox'}
        aria-label="Actors"
        aria-busy={isLoading}
        tabIndex={0}
        aria-activedescendant={actors[cursor] === undefined ? undefined : `actor-${actors[cursor].id}`}
        onKeyDown={(event) => moveOrOpen(event, props)}
      >
        {actors.map((actor, index) => (
          <Row
            key={actor.id}
            actor={actor}
            samples={samples}
            isOpen={actor.name === props.selected}
            isAtCursor={index === cursor}
            open={() => {
              setCursor(index);
              open(actor);
            }}
          />
        ))}
        {actors.length === 0 && (
          <p class="empty">
            {isLoading
              ? 'Asking for actors …'
              : filter !== ''
                ? `No actor's name, id or principal has “${inertText(shortText(filter, 40))}”.`
                : list.state === ''
                  ? 'No actors yet. Install one: choose a module in the form of this host.'
                  : `No actor is ${list.state}.`}
          </p>
        )}
      </div>
      {(list.pageNumber > 1 || hasMore) && <Pages {...props} />}
    </nav>
  );
}

function Search({ list, searchRef, listRef, openFirst }: ActorListProps) {
  return (
    <div class="search">
      <input
        ref={searchRef}
        type="search"
        placeholder="Search actors"
        aria-label="Search actors by name, id or principal"
        aria-keyshortcuts="/"
        spellcheck={false}
        autocomplete="off"
        value={list.filter}
        onInput={(event) => list.choose({ filter: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') {
            event.preventDefault();
            listRef.current?.focus();
          }
          if (event.key === 'Enter') openFirst();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

/** Moves the cursor of the list, or opens its actor; from the first row, a step up leads to the search. */
function moveOrOpen(event: KeyboardEvent, { shown, list, searchRef, open }: ActorListProps): void {
  const { actors } = shown;
  const { cursor, setCursor } = list;
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: 10,
    PageUp: -10,
    Home: -actors.length,
    End: actors.length,
  };
  const step = steps[event.key];
  if (step !== undefined) {
    event.preventDefault();
    if (event.key === 'ArrowUp' && cursor === 0) searchRef.current?.focus();
    else setCursor(Math.max(0, Math.min(actors.length - 1, cursor + step)));
  }
  const actor = actors[cursor];
  if (event.key === 'Enter' && actor !== undefined) open(actor);
}

const STATES = ['running', 'asleep', 'dry', 'stopping', 'stopped'] as const;

/** States that are shown, and the order. */
function Order({ list }: Pick<ActorListProps, 'list'>) {
  return (
    <div class="order">
      <select
        aria-label="Actors of this state"
        value={list.state}
        onChange={(event) => list.choose({ state: event.currentTarget.value })}
      >
        <option value="">All states</option>
        {STATES.map((state) => (
          <option key={state} value={state}>
            {state}
          </option>
        ))}
      </select>
      <select
        aria-label="Sort actors by"
        value={list.sort}
        onChange={(event) => {
          const sort = event.currentTarget.value as Sort;
          list.choose({ sort, isDescending: isLargestFirst(sort) });
        }}
      >
        {Object.entries(SORT_TITLES).map(([sort, title]) => (
          <option key={sort} value={sort}>
            {title}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="quiet"
        aria-label={list.isDescending ? 'Order: descending' : 'Order: ascending'}
        onClick={() => list.choose({ isDescending: !list.isDescending })}
      >
        {list.isDescending ? '↓' : '↑'}
      </button>
    </div>
  );
}

function Pages({ shown: { actors, matching, hasMore, isLoading }, list }: ActorListProps) {
  const turn = (by: 1 | -1): void => {
    if (!isLoading) list.turnPage(by);
  };
  const first = (list.pageNumber - 1) * PAGE_ACTORS + 1;
  return (
    <div class="pages">
      <TurnButton isEnd={list.pageNumber === 1} isLoading={isLoading} turn={() => turn(-1)}>
        ← Previous
      </TurnButton>
      <span>
        {first}–{first + actors.length - 1} of {matching.toLocaleString('en')}
      </span>
      <TurnButton isEnd={!hasMore} isLoading={isLoading} turn={() => turn(1)}>
        Next →
      </TurnButton>
    </div>
  );
}

/** Button that turns the page. It does nothing while a page is loading, but keeps the focus. */
function TurnButton({
  isEnd,
  isLoading,
  turn,
  children,
}: {
  readonly isEnd: boolean;
  readonly isLoading: boolean;
  readonly turn: () => void;
  readonly children: ComponentChildren;
}) {
  return (
    <button type="button" class="quiet" disabled={isEnd && !isLoading} aria-disabled={isLoading} onClick={turn}>
      {children}
    </button>
  );
}

function Row({
  actor,
  samples,
  isOpen,
  isAtCursor,
  open,
}: {
  readonly actor: ListedActor;
  readonly samples: Samples;
  readonly isOpen: boolean;
  readonly isAtCursor: boolean;
  readonly open: () => void;
}) {
  const points = rates(samples.of(actor.id), ({ messages }) => messages);
  const rate = rateText(points.at(-1)?.value ?? 0);
  const state = stateOf(actor);
  return (
    <div
      id={`actor-${actor.id}`}
      class={`actor${isAtCursor ? ' at-cursor' : ''}`}
      role="option"
      aria-selected={isOpen}
      onClick={open}
    >
      <span class={`dot ${state}`} title={state} />
      <span class="name" title={inertText(actor.name)}>
        {inertText(shortText(actor.name, 80))}
      </span>
      <RateLine points={points} />
      <span class="facts">
        <span>{state}</span>
        <span>{bytesText(actor.heapBytes + actor.stableBytes)}</span>
        {actor.traps > 0 && <span class="bad">{actor.traps === 1 ? '1 trap' : `${largeText(actor.traps)} traps`}</span>}
        {actor.queued > 0 && <span class="warn">{largeText(actor.queued)} queued</span>}
      </span>
      <span class="rate">{rate}</span>
    </div>
  );
}
