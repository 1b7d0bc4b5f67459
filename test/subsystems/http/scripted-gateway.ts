import type { Canister } from '../../../subsystems/canisters/index.ts';
import type { Gateway, SiteAnswer, SiteOutcome, SiteRequest } from '../../../subsystems/gateway/index.ts';
import type { ServerError } from '../../../kernel/index.ts';

type Script = (request: SiteRequest) => Partial<SiteAnswer> | ServerError | Promise<Partial<SiteAnswer> | ServerError>;

/** Websites in TypeScript: just the part of the gateway that the HTTP room needs. Every canister has one. */
export class ScriptedGateway implements Gateway {
  readonly #canisters: { resolve(reference: string): Canister };
  readonly requests: { readonly actor: string; readonly request: SiteRequest }[] = [];
  /** Answers the next requests; by default with the url. */
  script: Script = ({ url }) => ({ body: Buffer.from(`site ${url}`) });

  constructor(canisters: { resolve(reference: string): Canister }) {
    this.#canisters = canisters;
  }

  find(reference: string): Canister {
    return this.#canisters.resolve(reference);
  }

  referenceOfHost(label: string): string | undefined {
    return ['counter', 'bare', 'bkyz2-fmaaa-aaaaa-qaaaq-cai'].includes(label)
      ? label.replace(/^bkyz2-.*/, 'counter')
      : undefined;
  }

  async respond(canister: Canister, reference: string, request: SiteRequest): Promise<SiteOutcome> {
    this.requests.push({ actor: reference, request: { ...request, body: Buffer.from(request.body) } });
    const answer = await this.script(request);
    if (answer instanceof Error) return { isUpdate: false, answer };
    const { status = 200, headers = [], body = new Uint8Array(0), rest } = answer;
    return { isUpdate: request.method === 'POST', answer: { status, headers, body, rest } };
  }
}
