import type { ValueType } from '../wasm/index.ts';
import { type Code, unsigned } from './assembler.ts';
import type { FunctionTypes } from './function-types.ts';

interface AddedFunction {
  readonly typeIndex: number;
  readonly body: Code;
}

/** Functions added by us, after the module's own, so that no index of the module changes. */
export class AddedFunctions {
  readonly types: FunctionTypes;
  readonly #firstIndex: number;
  readonly #functions: AddedFunction[] = [];

  constructor(types: FunctionTypes, firstIndex: number) {
    this.types = types;
    this.#firstIndex = firstIndex;
  }

  /** Adds a function; `locals` are the types of its locals without the parameters. Returns the function's index. */
  add(params: readonly ValueType[], results: readonly ValueType[], locals: readonly ValueType[], body: Code): number {
    const declarations = locals.flatMap((type) => [1, type]);
    this.#functions.push({
      typeIndex: this.types.index(params, results),
      body: [...unsigned(locals.length), ...declarations, ...body, 0x0b],
    });
    return this.#firstIndex + this.#functions.length - 1;
  }

  get all(): readonly AddedFunction[] {
    return this.#functions;
  }
}
