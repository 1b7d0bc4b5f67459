/** Interface of a transform. */
export const TRANSFORM_DID = `
type http_header = record { name : text; value : text };
type http_request_result = record { status : nat; headers : vec http_header; body : blob };
service : {
  transform : (record { response : http_request_result; context : blob }) -> (http_request_result) query;
}`;
