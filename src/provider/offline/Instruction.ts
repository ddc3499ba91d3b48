/**
 * What a user can ask of the offline stand-in, as data.
 *
 * @since 0.1.0
 */

/** Something to be done with a tool. An empty list of paths means the file that was last spoken of. */
export type Action =
  | {
    readonly type: "read"
    readonly paths: ReadonlyArray<string>
    readonly offset?: number
    readonly limit?: number
    /** Whether a summary was asked for. */
    readonly digest?: boolean
  }
  | { readonly type: "list"; readonly path: string; readonly pattern: string }
  | { readonly type: "search"; readonly pattern: string; readonly path: string }
  | { readonly type: "run"; readonly commands: ReadonlyArray<string> }
  /** Without content: what the tools gave last. */
  | { readonly type: "write"; readonly path: string; readonly content: string | undefined }
  | { readonly type: "replace"; readonly path: string; readonly from: string; readonly to: string }
  | { readonly type: "todo"; readonly items: ReadonlyArray<string> }
  | { readonly type: "remember"; readonly text: string }
  | { readonly type: "web"; readonly query: string }
  | { readonly type: "delegate"; readonly goal: string }
  | { readonly type: "call"; readonly tool: string; readonly text: string }

/** A wish about how the tool calls are made. */
export interface Manner {
  readonly tool: string | undefined
  /** How often, where a number was given. */
  readonly times: number | undefined
  /** Whether the calls belong into one assistant message. */
  readonly together: boolean
}

/** One thing that a user said. */
export type Instruction =
  | { readonly type: "act"; readonly action: Action; readonly manner: Manner | undefined }
  | { readonly type: "use"; readonly manner: Manner & { readonly tool: string } }
  | { readonly type: "forbid"; readonly tools: ReadonlyArray<string> | "all" }
  | { readonly type: "reply"; readonly text: string }
  /** Answer with what the tools gave, and nothing else. `of` is done first, unless it was. */
  | { readonly type: "reply-output"; readonly of: Action | undefined }
  /** Show what the tools gave. */
  | { readonly type: "show"; readonly of: Action | undefined }
  /** Say what was done so far. */
  | { readonly type: "recap" }
  | { readonly type: "greet" }
  /** Something that takes a model to answer. */
  | { readonly type: "ask"; readonly text: string }
  /** Work for a tool, in words that the grammar does not know. */
  | { readonly type: "unclear"; readonly text: string }
  /** Something that asks for nothing. */
  | { readonly type: "remark" }
