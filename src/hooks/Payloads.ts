/**
 * Every hook by name: its payload, what its emitter hands in, and which hooks may answer.
 *
 * **Details**
 *
 * A payload is what listeners get: JSON, redacted, frozen, with `telemetry_schema_version`. `Fields` is what an emitter
 * hands in: the same names without the version, and live values where the payload has JSON.
 *
 * Hooks of the contract that have no place in this runtime (`pre_gateway_dispatch`, `pre_verify`, the kanban family) are
 * not listed; a plugin that registers one is told so.
 *
 * **Example** (Checking what was received)
 *
 * ```ts
 * import { Payloads } from "hermes-effect"
 *
 * console.log(Payloads.isHookName("post_tool_call"), Payloads.isHookName("after_tool"))
 * // => true false
 * console.log(Object.keys(Payloads.schemas).length === Payloads.names.length)
 * // => true
 * ```
 *
 * Source: the observer document, `hermes-contract.md` §2.2, §2.3 and §2.6.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Schema from "effect/Schema"
import { observerVersion } from "./PayloadFields.ts"
import { ApiRequestError, PostApiRequest, PreApiRequest } from "./PayloadsApi.ts"
import {
  OnSessionEnd,
  OnSessionFinalize,
  OnSessionReset,
  OnSessionStart,
  PostLlmCall,
  PreLlmCall,
  SubagentStart,
  SubagentStop,
  TransformLlmOutput
} from "./PayloadsRun.ts"
import {
  PostApprovalResponse,
  PostToolCall,
  PreApprovalRequest,
  PreToolCall,
  TransformTerminalOutput,
  TransformToolResult
} from "./PayloadsTool.ts"

/** The payload of each hook. */
export interface HookEvents {
  readonly on_session_start: OnSessionStart
  readonly on_session_end: OnSessionEnd
  readonly on_session_finalize: OnSessionFinalize
  readonly on_session_reset: OnSessionReset
  readonly pre_llm_call: PreLlmCall
  readonly post_llm_call: PostLlmCall
  readonly transform_llm_output: TransformLlmOutput
  readonly pre_api_request: PreApiRequest
  readonly post_api_request: PostApiRequest
  readonly api_request_error: ApiRequestError
  readonly pre_tool_call: PreToolCall
  readonly post_tool_call: PostToolCall
  readonly transform_tool_result: TransformToolResult
  readonly transform_terminal_output: TransformTerminalOutput
  readonly pre_approval_request: PreApprovalRequest
  readonly post_approval_response: PostApprovalResponse
  readonly subagent_start: SubagentStart
  readonly subagent_stop: SubagentStop
}

/** The name of a hook. */
export type HookName = keyof HookEvents

/** The Schema of each payload. */
export const schemas = {
  on_session_start: OnSessionStart,
  on_session_end: OnSessionEnd,
  on_session_finalize: OnSessionFinalize,
  on_session_reset: OnSessionReset,
  pre_llm_call: PreLlmCall,
  post_llm_call: PostLlmCall,
  transform_llm_output: TransformLlmOutput,
  pre_api_request: PreApiRequest,
  post_api_request: PostApiRequest,
  api_request_error: ApiRequestError,
  pre_tool_call: PreToolCall,
  post_tool_call: PostToolCall,
  transform_tool_result: TransformToolResult,
  transform_terminal_output: TransformTerminalOutput,
  pre_approval_request: PreApprovalRequest,
  post_approval_response: PostApprovalResponse,
  subagent_start: SubagentStart,
  subagent_stop: SubagentStop
} as const

// `Object.keys` is typed `string[]`; the object above is closed.
/** All hooks, in the order in which a session meets them. */
export const names = Object.keys(schemas) as ReadonlyArray<HookName>

/** True when a name is one that this runtime emits. */
export const isHookName = (name: string): name is HookName => Object.hasOwn(schemas, name)

/** The JSON Schema document (draft 2020-12) of one payload, for consumers that are not written in TypeScript. Made anew on each call. */
export const jsonSchema = (name: HookName): JsonSchema.JsonSchema => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(schemas[name])
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `${observerVersion}/${name}`,
    title: name,
    ...schema,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}

/** A directive that stops a tool call. */
export interface Block {
  readonly action: "block"
  readonly message: string
}

/** A directive that sends a tool call to the user for approval, whatever else allows it. */
export interface Approve {
  readonly action: "approve"
  readonly message?: string | undefined
  /** Key under which an approval is remembered; the tool's name when absent. */
  readonly rule_key?: string | undefined
}

/** Answers that a listener may give; nothing is always an answer. */
export interface HookReturns {
  readonly pre_llm_call: string | { readonly context: string }
  readonly pre_tool_call: Block | Approve
  readonly transform_tool_result: string
  readonly transform_terminal_output: string
  readonly transform_llm_output: string
}

/** The name of a hook whose answers change the run. */
export type AskName = keyof HookReturns

/** Payload fields whose values an emitter hands in as they are: they are copied, redacted and bounded on the way out. */
type LiveField =
  | "user_message"
  | "conversation_history"
  | "request_messages"
  | "assistant_message"
  | "request"
  | "response"
  | "args"
  | "result"

/** Fields that an emitter hands in for a hook, before they are copied and redacted. */
export type Fields<Name extends HookName> = FieldsOf<Omit<HookEvents[Name], "telemetry_schema_version">>

type FieldsOf<Payload> =
  & { readonly [K in keyof Payload as undefined extends Payload[K] ? never : K]: Live<K, Payload[K]> }
  & { readonly [K in keyof Payload as undefined extends Payload[K] ? K : never]?: Live<K, Payload[K]> | undefined }

type Live<Key, Value> = Key extends LiveField ? unknown : Value
