/**
 * Interfaces of the canisters that the host answers for: the methods that tools of the Internet Computer call, with the
 * types of the real ones.
 */
import { CANISTER_SETTINGS_DID } from '../management/index.ts';

const ACCOUNT = 'type account = record { owner : principal; subaccount : opt blob };';
const GENERIC = 'GenericError : record { message : text; error_code : nat }; TemporarilyUnavailable';
const DATED = 'Duplicate : record { duplicate_of : nat }; CreatedInFuture : record { ledger_time : nat64 }; TooOld';
const PAID = 'BadFee : record { expected_fee : nat }; InsufficientFunds : record { balance : nat }';
const TRANSFERRED = `variant { Ok : nat; Err : variant { ${GENERIC}; ${DATED}; ${PAID} } }`;
const TRANSFER = `record {
    to : account; amount : nat; fee : opt nat; memo : opt blob; from_subaccount : opt blob; created_at_time : opt nat64;
  }`;
/** Methods that ledgers of tokens have in common (ICRC-1). */
const TOKEN = `
  icrc1_balance_of : (account) -> (nat) query;
  icrc1_fee : () -> (nat) query;
  icrc1_decimals : () -> (nat8) query;
  icrc1_symbol : () -> (text) query;
  icrc1_name : () -> (text) query;
  icrc1_transfer : (${TRANSFER}) -> (${TRANSFERRED});
  icrc2_approve : (record {
    spender : account; amount : nat; expected_allowance : opt nat; expires_at : opt nat64;
    fee : opt nat; memo : opt blob; from_subaccount : opt blob; created_at_time : opt nat64;
  }) -> (${TRANSFERRED});
  icrc2_allowance : (record { account : account; spender : account }) -> (record { allowance : nat; expires_at : opt nat64 }) query;
  icrc2_transfer_from : (record {
    from : account; to : account; amount : nat; fee : opt nat; memo : opt blob;
    spender_subaccount : opt blob; created_at_time : opt nat64;
  }) -> (${TRANSFERRED});`;

const SUBNET = 'variant { Filter : record { subnet_type : opt text }; Subnet : record { subnet : principal } }';

export const CYCLES_LEDGER_DID = `
${CANISTER_SETTINGS_DID}
${ACCOUNT}
type rejection_code = variant {
  NoError; CanisterError; SysTransient; DestinationInvalid; Unknown; SysFatal; CanisterReject;
};
service : {
  create_canister : (record {
    from_subaccount : opt blob; created_at_time : opt nat64; amount : nat;
    creation_args : opt record { subnet_selection : opt ${SUBNET}; settings : opt canister_settings };
  }) -> (variant {
    Ok : record { block_id : nat; canister_id : principal };
    Err : variant {
      ${GENERIC};
      Duplicate : record { duplicate_of : nat; canister_id : opt principal };
      CreatedInFuture : record { ledger_time : nat64 };
      FailedToCreate : record { error : text; refund_block : opt nat; fee_block : opt nat };
      TooOld; InsufficientFunds : record { balance : nat };
    };
  });
  deposit : (record { to : account; memo : opt blob }) -> (record { balance : nat; block_index : nat });
  withdraw : (record {
    amount : nat; from_subaccount : opt blob; to : principal; created_at_time : opt nat64;
  }) -> (variant {
    Ok : nat;
    Err : variant {
      ${GENERIC}; ${DATED}; ${PAID};
      FailedToWithdraw : record { fee_block : opt nat; rejection_code : rejection_code; rejection_reason : text };
      InvalidReceiver : record { receiver : principal };
    };
  });
  ${TOKEN}
}`;

const NOTIFY_ERROR = `variant {
    Refunded : record { reason : text; block_index : opt nat64 };
    Processing; TransactionTooOld : nat64; InvalidTransaction : text;
    Other : record { error_code : nat64; error_message : text };
  }`;

export const MINTING_DID = `
${CANISTER_SETTINGS_DID}
service : {
  get_default_subnets : () -> (vec principal) query;
  get_icp_xdr_conversion_rate : () -> (record {
    data : record { timestamp_seconds : nat64; xdr_permyriad_per_icp : nat64 };
    hash_tree : blob; certificate : blob;
  }) query;
  notify_mint_cycles : (record { block_index : nat64; to_subaccount : opt blob; deposit_memo : opt blob }) -> (variant {
    Ok : record { balance : nat; block_index : nat; minted : nat }; Err : ${NOTIFY_ERROR};
  });
  notify_create_canister : (record {
    block_index : nat64; controller : principal; subnet_selection : opt ${SUBNET}; settings : opt canister_settings;
  }) -> (variant { Ok : principal; Err : ${NOTIFY_ERROR} });
}`;

export const ICP_LEDGER_DID = `
${ACCOUNT}
type tokens = record { e8s : nat64 };
service : {
  transfer : (record {
    to : blob; amount : tokens; fee : tokens; memo : nat64; from_subaccount : opt blob;
    created_at_time : opt record { timestamp_nanos : nat64 };
  }) -> (variant {
    Ok : nat64;
    Err : variant {
      BadFee : record { expected_fee : tokens }; InsufficientFunds : record { balance : tokens };
      TxTooOld : record { allowed_window_nanos : nat64 }; TxCreatedInFuture; TxDuplicate : record { duplicate_of : nat64 };
    };
  });
  account_balance : (record { account : blob }) -> (tokens) query;
  ${TOKEN}
}`;
