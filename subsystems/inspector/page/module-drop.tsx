import { useState } from 'preact/hooks';
import { bytesText } from './format.ts';
import { inertText, shortText } from './inert-text.ts';

/** A place to drop a module, or to choose its file. */
export function ModuleDrop({
  file,
  choose,
}: {
  readonly file: File | undefined;
  readonly choose: (chosen: File | undefined) => void;
}) {
  const [isOver, setOver] = useState(false);
  return (
    <label
      class={`drop${isOver ? ' over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        choose(event.dataTransfer?.files[0]);
      }}
    >
      <input
        type="file"
        class="offscreen"
        accept=".wasm,.gz,application/wasm,application/gzip"
        onChange={(event) => {
          choose(event.currentTarget.files?.[0]);
          // Reset, so that choosing the same file again, rebuilt meanwhile, is also a change.
          event.currentTarget.value = '';
        }}
      />
      {file === undefined ? (
        <>
          <strong>Drop a module here</strong>
          <span class="hint">or choose a file: .wasm or .wasm.gz</span>
        </>
      ) : (
        <>
          <strong>{inertText(shortText(file.name, 80))}</strong>
          <span class="hint">{bytesText(file.size)}</span>
        </>
      )}
    </label>
  );
}
