import type { Methods } from '../method-context.ts';
import type { OutcallService } from '../outcalls/outcall-desk.ts';

export function outcallMethods(desk: OutcallService): Pick<Methods, 'http_request'> {
  return { http_request: (argument, { sender }) => desk.request(argument, sender) };
}
