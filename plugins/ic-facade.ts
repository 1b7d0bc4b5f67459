import { Clock, definePlugin } from '../kernel/index.ts';
import { Codec } from '../subsystems/codec/index.ts';
import { Facade } from '../subsystems/ic-facade/facade.ts';
import { IcFacade } from '../subsystems/ic-facade/index.ts';
import { Management, ManagementBackend } from '../subsystems/management/index.ts';

export const icFacadePlugin = definePlugin({
  name: 'ic-facade',
  provides: IcFacade,
  requires: { host: ManagementBackend, management: Management, codec: Codec, clock: Clock },
  create: (granted): IcFacade => new Facade(granted),
  disabled: (): IcFacade => ({
    serves: () => false,
    readUserCall: () => Promise.reject(new Error('there is no facade')),
  }),
  open: async (facade) => {
    if (facade instanceof Facade) facade.open();
  },
});
