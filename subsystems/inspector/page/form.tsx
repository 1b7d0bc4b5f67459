/** A form for a value of any Candid type; values change in place, and `changed` draws them again. */
import { useId, useState } from 'preact/hooks';
import { type ConcreteType, type DidType, type Field, resolve } from './candid/did-types.ts';
import { base64OfBytes, type Problems } from './candid/encode-form.ts';
import { type BlobEncoding, emptyValue, type FormValue } from './candid/form-value.ts';
import { typeText } from './candid/type-text.ts';
import { inertText, shortText } from './inert-text.ts';
import { messageOf } from './messages.ts';

interface FieldProps {
  readonly label: string;
  readonly type: DidType;
  readonly value: FormValue;
  readonly problems: Problems;
  readonly changed: () => void;
}

type Of<K extends FormValue['kind']> = FieldProps & { readonly value: FormValue & { readonly kind: K } };

export function FormField(props: FieldProps) {
  const { value } = props;
  switch (value.kind) {
    case 'text':
      return <TextField {...props} value={value} />;
    case 'bool':
      return <BoolField {...props} value={value} />;
    case 'blob':
      return <BlobField {...props} value={value} />;
    case 'opt':
      return <OptField {...props} value={value} />;
    case 'vec':
      return <VecField {...props} value={value} />;
    case 'record':
      return <RecordField {...props} value={value} />;
    case 'variant':
      return <VariantField {...props} value={value} />;
    case 'func':
      return <FuncField {...props} value={value} />;
    case 'nothing':
      return (
        <div class="field">
          <span class="label">
            <Name {...props} />
          </span>
          <Problem {...props} />
        </div>
      );
  }
}

/** A field's name and, less prominent, its type. */
function Name({ label, type }: { readonly label: string; readonly type: DidType }) {
  return (
    <>
      {label !== '' && <span class="field-name">{inertText(shortText(label, 80))}</span>}{' '}
      <span class="type">{inertText(shortText(typeText(type), 60))}</span>
    </>
  );
}

function Problem({ value, problems, id }: Pick<FieldProps, 'value' | 'problems'> & { readonly id?: string }) {
  const problem = problems.get(value);
  if (problem === undefined) return null;
  return (
    <p class="problem" id={id}>
      {problem}
    </p>
  );
}

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  principal: 'aaaaa-aa',
  service: 'aaaaa-aa',
  nat: '0',
  int: '0',
  float64: '0.0',
  float32: '0.0',
};

function TextField(props: Of<'text'>) {
  const { type, value, problems, changed } = props;
  const id = useId();
  const { kind } = resolve(type);
  const common = {
    id,
    spellcheck: false,
    autocomplete: 'off',
    'aria-invalid': problems.has(value),
    'aria-describedby': `${id}-problem`,
    value: value.text,
  } as const;
  const typed = (text: string): void => {
    value.text = text;
    changed();
  };
  return (
    <div class="field">
      <label for={id} class="label">
        <Name {...props} />
      </label>
      {kind === 'text' ? (
        <textarea {...common} rows={1} onInput={(event) => typed(event.currentTarget.value)} />
      ) : (
        <input
          {...common}
          inputMode={kind.startsWith('nat') ? 'numeric' : undefined}
          placeholder={PLACEHOLDERS[kind] ?? PLACEHOLDERS[kind.replace(/\d+$/, '')]}
          onInput={(event) => typed(event.currentTarget.value)}
        />
      )}
      <Problem {...props} id={`${id}-problem`} />
    </div>
  );
}

function BoolField(props: Of<'bool'>) {
  const { value, changed } = props;
  return (
    <div class="field">
      <label class="check">
        <input
          type="checkbox"
          checked={value.isTrue}
          onChange={(event) => {
            value.isTrue = event.currentTarget.checked;
            changed();
          }}
        />
        <Name {...props} />
      </label>
    </div>
  );
}

const BLOB_ENCODINGS: readonly BlobEncoding[] = ['text', 'hex', 'base64'];
/** Larger files do not belong in a text field; curl can send them. */
const BLOB_FILE_BYTES_MAX = 1024 * 1024;

function BlobField(props: Of<'blob'>) {
  const { value, problems, changed } = props;
  const id = useId();
  const put = (text: string, problem?: string): void => {
    value.text = text;
    value.problem = problem;
    if (problem === undefined) problems.delete(value);
    else problems.set(value, problem);
    changed();
  };
  const read = async (file: File): Promise<void> => {
    // A file that was refused must not leave the field's previous value to be sent.
    if (file.size > BLOB_FILE_BYTES_MAX) return put('', 'the file has more than 1 MiB: send it with curl');
    try {
      const bytes = new Uint8Array(await file.arrayBuffer());
      value.encoding = 'base64';
      put(base64OfBytes(bytes));
    } catch {
      put('', 'the file cannot be read: choose it again');
    }
  };
  return (
    <div class="field">
      <label for={id} class="label">
        <Name {...props} />
      </label>
      <div class="blob">
        <textarea
          id={id}
          rows={1}
          spellcheck={false}
          aria-invalid={problems.has(value)}
          aria-describedby={`${id}-problem`}
          value={value.text}
          onInput={(event) => put(event.currentTarget.value)}
        />
        <select
          aria-label="How the bytes are written"
          value={value.encoding}
          onChange={(event) => {
            value.encoding = BLOB_ENCODINGS.find((name) => name === event.currentTarget.value) ?? 'text';
            changed();
          }}
        >
          {BLOB_ENCODINGS.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <label class="button quiet">
          File
          <input
            type="file"
            class="offscreen"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file !== undefined) void read(file);
              // Reset, so that choosing the same file again, changed meanwhile, is also a change.
              event.currentTarget.value = '';
            }}
          />
        </label>
      </div>
      <Problem {...props} id={`${id}-problem`} />
    </div>
  );
}

/** Returns a function that makes a value when it is needed, and the problem of a type whose form would have no end. */
function useCreate(): readonly [string | undefined, (type: DidType) => FormValue | undefined] {
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const create = (type: DidType): FormValue | undefined => {
    try {
      return emptyValue(type);
    } catch (error) {
      setProblem(messageOf(error));
      return undefined;
    }
  };
  return [problem, create];
}

function OptField(props: Of<'opt'>) {
  const { type, value, problems, changed, label } = props;
  const [problem, create] = useCreate();
  const concrete = resolve(type);
  const inner = concrete.kind === 'opt' ? concrete.inner : type;
  return (
    <div class="field">
      <label class="check">
        <input
          type="checkbox"
          aria-invalid={problems.has(value)}
          checked={value.isSome}
          onChange={(event) => {
            value.isSome = event.currentTarget.checked;
            if (value.isSome) value.value ??= create(inner);
            changed();
          }}
        />
        <Name label={label} type={type} />
      </label>
      {value.isSome && value.value !== undefined && (
        <div class="nested">
          <FormField label="" type={inner} value={value.value} problems={problems} changed={changed} />
        </div>
      )}
      {problem === undefined || !value.isSome ? <Problem {...props} /> : <p class="problem">{problem}</p>}
    </div>
  );
}

function VecField(props: Of<'vec'>) {
  const { type, value, problems, changed } = props;
  const [problem, create] = useCreate();
  const concrete = resolve(type);
  const inner = concrete.kind === 'vec' ? concrete.inner : type;
  return (
    <fieldset class="field">
      <legend class="label">
        <Name {...props} />
      </legend>
      {value.items.map((item, index) => (
        <div class="nested item" key={keyOf(item)}>
          <FormField label={String(index)} type={inner} value={item} problems={problems} changed={changed} />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove item ${index}`}
            title="Remove"
            onClick={() => {
              value.items.splice(index, 1);
              changed();
            }}
          >
            ✕
          </button>
        </div>
      ))}
      <button
        type="button"
        class="quiet add"
        onClick={() => {
          const item = create(inner);
          if (item !== undefined) value.items.push(item);
          changed();
        }}
      >
        + Add item
      </button>
      {problem !== undefined && <p class="problem">{problem}</p>}
    </fieldset>
  );
}

/** Keys of items, so that removing one leaves the focus in the others. */
const keys = new WeakMap<FormValue, number>();
let keysGiven = 0;
function keyOf(value: FormValue): number {
  const key = keys.get(value) ?? ++keysGiven;
  keys.set(value, key);
  return key;
}

function fieldsOf(type: ConcreteType): readonly Field[] {
  return type.kind === 'record' || type.kind === 'variant' ? type.fields : [];
}

function RecordField(props: Of<'record'>) {
  const { type, value, problems, changed, label } = props;
  const fields = fieldsOf(resolve(type));
  const parts = fields.map((field, index) => {
    const part = value.fields[index];
    if (part === undefined) return null;
    return (
      <FormField
        key={field.id}
        label={field.label}
        type={field.type}
        value={part}
        problems={problems}
        changed={changed}
      />
    );
  });
  // The value of an opt or a variant is below the name already.
  if (label === '') return <div class="flat">{parts}</div>;
  return (
    <fieldset class="field">
      <legend class="label">
        {/* The fields below say what the record is; its name may say more. */}
        {type.kind === 'name' ? <Name label={label} type={type} /> : <span class="field-name">{inertText(label)}</span>}
      </legend>
      <div class="nested">
        {parts}
        {fields.length === 0 && <span class="type">record {'{}'}</span>}
      </div>
    </fieldset>
  );
}

function VariantField(props: Of<'variant'>) {
  const { type, value, problems, changed, label } = props;
  const [problem, create] = useCreate();
  const id = useId();
  const fields = fieldsOf(resolve(type));
  const choose = (tag: number | undefined): void => {
    value.tag = tag;
    const field = tag === undefined ? undefined : fields[tag];
    if (tag !== undefined && field !== undefined && !value.values.has(tag)) {
      const payload = create(field.type);
      if (payload !== undefined) value.values.set(tag, payload);
    }
    changed();
  };
  const field = value.tag === undefined ? undefined : fields[value.tag];
  const payload = value.tag === undefined ? undefined : value.values.get(value.tag);
  return (
    <div class="field">
      <label for={id} class="label">
        {type.kind === 'name' ? (
          <Name label={label} type={type} />
        ) : (
          <span class="field-name">{inertText(label) || 'variant'}</span>
        )}
      </label>
      <select
        id={id}
        aria-invalid={problems.has(value)}
        aria-describedby={`${id}-problem`}
        value={value.tag === undefined ? '' : String(value.tag)}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          choose(chosen === '' ? undefined : Number(chosen));
        }}
      >
        <option value="">choose …</option>
        {fields.map(({ label: tag }, index) => (
          <option key={tag} value={String(index)}>
            {inertText(shortText(tag, 80))}
          </option>
        ))}
      </select>
      {problem === undefined || payload !== undefined || field === undefined ? (
        <Problem {...props} id={`${id}-problem`} />
      ) : (
        <p class="problem">{problem}</p>
      )}
      {field !== undefined && payload !== undefined && (payload.kind !== 'nothing' || isEmpty(field.type)) && (
        <div class="nested">
          <FormField label="" type={field.type} value={payload} problems={problems} changed={changed} key={value.tag} />
        </div>
      )}
    </div>
  );
}

/** Returns true for `empty`: it takes no input, and no value of it can be sent. */
function isEmpty(type: DidType): boolean {
  return resolve(type).kind === 'empty';
}

function FuncField(props: Of<'func'>) {
  const { value, changed, problems } = props;
  return (
    <fieldset class="field">
      <legend class="label">
        <Name {...props} />
      </legend>
      <div class="nested row">
        <input
          aria-label="Principal of the function"
          placeholder="aaaaa-aa"
          spellcheck={false}
          aria-invalid={problems.has(value)}
          value={value.principal}
          onInput={(event) => {
            value.principal = event.currentTarget.value;
            changed();
          }}
        />
        <input
          aria-label="Method of the function"
          placeholder="method"
          spellcheck={false}
          value={value.method}
          onInput={(event) => {
            value.method = event.currentTarget.value;
            changed();
          }}
        />
      </div>
      <Problem {...props} />
    </fieldset>
  );
}
