import { typeTableBytes } from '../../../../subsystems/codec/description/type-table.ts';
import type { DidInterface } from '../../../../subsystems/inspector/page/candid/did-types.ts';
import { readInterface, type TypeTable } from '../../../../subsystems/inspector/page/candid/read-interface.ts';

/** Returns an interface as the page has it: by way of the table that the server makes. */
export function readDid(did: string): DidInterface {
  return readInterface(JSON.parse(Buffer.from(typeTableBytes(did)).toString()) as TypeTable);
}
