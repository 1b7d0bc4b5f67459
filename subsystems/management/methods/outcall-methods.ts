import type { Methods } from '../method-context.ts';
import type { OutcallService } from '../outcalls/outcall-service.ts';

export function outcallMethods(outcalls: OutcallService): Pick<Methods, 'http_request'> {
  return { http_request: (argument, call) => outcalls.request(argument, call) };
}
