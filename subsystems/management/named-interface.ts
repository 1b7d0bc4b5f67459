/**
 * The interface of `aaaaa-aa` for programs that import it: arguments and results have the names of the interface
 * specification (`http_request_args`), because such programs refer to these names.
 */
import { MANAGEMENT_DID } from './interface-did.ts';

/** Names of the specification for types that have other names here. */
const OTHER_NAMES = `
type wasm_module = blob;
type canister_install_mode = install_mode;
type log_visibility = visibility;
type change_origin = origin;
type change_details = details;
type ecdsa_curve = variant { secp256k1 };
type schnorr_algorithm = variant { bip340secp256k1; ed25519 };
`;
const SERVICE = 'service : {';
const METHOD = /\s*(\w+) : \(/uy;
const ARROW = /\s*->\s*\(/uy;
const END = /([^;]*);/uy;

function withNames(did: string): string {
  const start = did.indexOf(SERVICE) + SERVICE.length;
  const types: string[] = [OTHER_NAMES];
  const methods: string[] = [];
  const reader = new MethodReader(did, start);
  for (let method = reader.next(); method !== undefined; method = reader.next()) {
    const { name, args, result, mode } = method;
    const named = (type: string, suffix: string): string => {
      const own = `${name}_${suffix}`;
      if (type === '' || type === own) return type;
      types.push(`type ${own} = ${type};\n`);
      return own;
    };
    methods.push(`  ${name} : (${named(args, 'args')}) -> (${named(result, 'result')})${mode};\n`);
  }
  return `${did.slice(0, start - SERVICE.length)}${types.join('')}${SERVICE}\n${methods.join('')}};\n`;
}

interface MethodText {
  readonly name: string;
  readonly args: string;
  readonly result: string;
  readonly mode: string;
}

class MethodReader {
  readonly #text: string;
  #at: number;

  constructor(text: string, at: number) {
    this.#text = text;
    this.#at = at;
  }

  next(): MethodText | undefined {
    const [, name] = this.#match(METHOD) ?? [];
    if (name === undefined) return undefined;
    const args = this.#inside();
    this.#match(ARROW);
    const result = this.#inside();
    const [, mode = ''] = this.#match(END) ?? [];
    return { name, args, result, mode };
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  /** Returns the text up to the parenthesis that closes the one just read; that parenthesis is consumed, too. */
  #inside(): string {
    const from = this.#at;
    for (let depth = 1; depth > 0; this.#at++) {
      if (this.#text[this.#at] === '(') depth++;
      else if (this.#text[this.#at] === ')') depth--;
    }
    return this.#text.slice(from, this.#at - 1).trim();
  }
}

export const NAMED_MANAGEMENT_DID: string = withNames(MANAGEMENT_DID);
