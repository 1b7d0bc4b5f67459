/** `svc/contracts/openapi`: the suite that every maker of OpenAPI documents has to pass. */
import assert from 'node:assert/strict';
import { ServerError } from '../../../kernel/index.ts';
import type { MethodKind } from '../../../subsystems/ic/index.ts';
import type { DescribedActor, OpenApi } from '../../../subsystems/openapi/index.ts';
import { OpenApiDocuments } from '../../../subsystems/openapi/openapi-documents.ts';
import { nodeRunner, suite, type SuiteContext, type SuiteRunner } from './runner.ts';

interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, object>>;
}

function actorOf(name: string, did: string, methods: Readonly<Record<string, MethodKind>>): DescribedActor {
  return { name, candid: { text: did }, methods: new Map(Object.entries(methods)) };
}

const COUNTER = 'service : { inc : (nat) -> (nat); get : () -> (nat) query }';
const METHODS = { inc: 'update', get: 'query' } as const;

export function describeOpenApi(
  name: string,
  make: (context: SuiteContext, own: () => OpenApi) => OpenApi | Promise<OpenApi>,
  runner: SuiteRunner = nodeRunner,
): void {
  suite(runner, name, (test) => {
    const made = async (t: SuiteContext): Promise<OpenApi> =>
      make(t, () => {
        const documents = new OpenApiDocuments({ isGuarded: false });
        t.after(() => documents.close());
        return documents;
      });
    const documentOf = async (openApi: OpenApi, actor: DescribedActor): Promise<Document> =>
      JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(await openApi.documentOf(actor))) as Document;

    test('a document is JSON of OpenAPI 3.1, with a path for each method that clients may call', async (t) => {
      const { openapi, paths } = await documentOf(await made(t), actorOf('counter', COUNTER, METHODS));
      assert.match(openapi, /^3\.1\./);
      const named = Object.keys(paths);
      for (const path of ['/call-json/counter/inc', '/query-json/counter/get']) assert.ok(named.includes(path), path);
    });

    test('each actor has its own, whoever asks for it at the same time', async (t) => {
      const openApi = await made(t);
      const names = ['one', 'two', 'three', 'one'];
      const documents = await Promise.all(names.map((each) => documentOf(openApi, actorOf(each, COUNTER, METHODS))));
      for (const [at, { paths }] of documents.entries()) assert.ok(`/call-json/${names[at]}/inc` in paths);
    });

    test('types are declarations of TypeScript, with each method that clients may call', async (t) => {
      const openApi = await made(t);
      const bytes = await openApi.typesOf(actorOf('counter', COUNTER, METHODS));
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      assert.match(text, /^export interface Actor \{$/m);
      for (const method of Object.keys(METHODS)) assert.match(text, new RegExp(`^ *${method}: \\{ kind: `, 'm'));
      assert.notDeepEqual(bytes, await openApi.documentOf(actorOf('counter', COUNTER, METHODS)));
    });

    test('an interface that is none is refused as invalid, and the next is described', async (t) => {
      const openApi = await made(t);
      for (const did of ['', 'service', 'service : { a : (missing) -> () }'])
        await assert.rejects(
          openApi.documentOf(actorOf('broken', did, METHODS)),
          (error) => error instanceof ServerError && error.kind === 'invalid' && error.message !== '',
        );
      assert.ok('/call-json/counter/inc' in (await documentOf(openApi, actorOf('counter', COUNTER, METHODS))).paths);
    });
  });
}
