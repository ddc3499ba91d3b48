/** Keys of an agent file, each with the form of its value and the setting that it sets. */
import { apiTypes } from "../domain/ApiMode.ts"
import * as Tree from "./internal/Tree.ts"

/** Form of a value in an agent file. */
export interface Kind {
  readonly expected: string
  /** Converts a value to the form of the settings. Returns `undefined` if the value does not fit. */
  readonly read: (value: unknown) => unknown
}

/** A text that is not empty. */
export const text: Kind = {
  expected: "a text",
  read: (value) => (typeof value === "string" && value.trim() !== "" ? value : undefined)
}

const makeNumberKind = (expected: string, fits: (value: number) => boolean): Kind => ({
  expected,
  read: (value) => {
    const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value
    return typeof number === "number" && Number.isFinite(number) && fits(number) ? number : undefined
  }
})

const positive = makeNumberKind("a positive integer", (value) => Number.isInteger(value) && value > 0)
const seconds = makeNumberKind("a positive number of seconds", (value) => value > 0)
const temperature = makeNumberKind("a number from 0 to 2", (value) => value >= 0 && value <= 2)

const flag: Kind = {
  expected: "true or false",
  read: (value) =>
    typeof value === "string" ? Tree.parseBoolean(value) : typeof value === "boolean" ? value : undefined
}

const makeChoiceKind = (words: Readonly<Record<string, unknown>>): Kind => ({
  expected: `one of ${Object.keys(words).join(", ")}`,
  read: (value) => (typeof value === "string" && Object.hasOwn(words, value) ? words[value] : undefined)
})

/** Makes the kind of one of the given words. */
export const makeWordKind = (...words: ReadonlyArray<string>): Kind =>
  makeChoiceKind(Object.fromEntries(words.map((word) => [word, word])))

/** A key with the form of its value. */
export interface Key {
  readonly kind: Kind
  /** Setting that the key sets, under its name in `config.yaml`. */
  readonly setting?: string
}

/**
 * Keys of `llm_config`, and the settings that they set. `temperature` has no corresponding setting and applies only to
 * the agent.
 */
export const llmKeys: Readonly<Record<string, Key>> = {
  model: { kind: text, setting: "model.default" },
  provider: { kind: text, setting: "model.provider" },
  base_url: { kind: text, setting: "model.base_url" },
  api_key: { kind: text, setting: "model.api_key" },
  api_type: { kind: makeChoiceKind(apiTypes), setting: "model.api_mode" },
  max_tokens: { kind: positive, setting: "model.max_tokens" },
  temperature: { kind: temperature },
  stream: { kind: flag, setting: "model.streaming" },
  timeout: { kind: seconds, setting: "network.request_timeout_seconds" },
  max_retries: { kind: positive, setting: "agent.api_max_retries" },
  reasoning_effort: {
    kind: makeWordKind("none", "minimal", "low", "medium", "high", "xhigh"),
    setting: "agent.reasoning_effort"
  }
}

/** Keys of an agent file that hold a single value. */
export const keys: Readonly<Record<string, Key>> = {
  max_iterations: { kind: positive, setting: "agent.max_turns" },
  max_context_tokens: { kind: positive, setting: "model.context_length" },
  max_running_subagents: { kind: positive, setting: "delegation.max_concurrent_children" },
  retry_attempts: { kind: positive, setting: "agent.api_max_retries" },
  tool_call_mode: { kind: makeWordKind("structured") },
  type: { kind: makeWordKind("agent") },
  name: { kind: text },
  description: { kind: text },
  system_prompt_type: { kind: makeWordKind("string", "file") },
  system_prompt_suffix: { kind: text }
}

/** Keys of an agent file that set limits of the run. */
export const limitKeys = [
  "max_iterations",
  "max_context_tokens",
  "max_running_subagents",
  "retry_attempts",
  "tool_call_mode"
]

/** Keys of an agent file that hold nested values. Separate code reads each of them. */
export const nestedKeys = [
  "system_prompt",
  "llm_config",
  "tools",
  "stop_tools",
  "output_schema",
  "sub_agents",
  "middlewares",
  "mcp_servers",
  "variables"
]

/** Transports of an MCP server, each with the key that contains its command or address. */
export const transports: Readonly<Record<string, string>> = { stdio: "command", http: "url", sse: "url" }

/** Keys of an MCP server that have the same names in `config.yaml`. */
export const serverKeys = ["command", "args", "env", "url", "headers", "timeout", "sandbox"]

/** Keys described in the lifecycle document that are not supported, each with a remedy for the user. */
export const unsupportedKeys: Readonly<Record<string, string>> = {
  plugins: "enable them with `hermes plugins enable`",
  skills: "install them with `hermes skills install`, or list their folders in skills.external_dirs in config.yaml",
  sandbox_config: "set terminal.backend in config.yaml, which is the user's decision",
  tracers: "enable an exporter in config.yaml or as a plugin",
  token_counter: "tokens are those that the provider counts; remove it",
  timeout: "set llm_config.timeout",
  ...Object.fromEntries(
    ["after_model_hooks", "after_tool_hooks", "before_model_hooks", "before_tool_hooks"].map((key) => [
      key,
      "write it as one of middlewares"
    ])
  ),
  ...Object.fromEntries(
    ["context", "initial_context"].map((key) => [key, "write it into system_prompt, by ${variables.…}"])
  ),
  ...Object.fromEntries(
    ["global_storage", "initial_config", "initial_state"].map((key) => [key, "keep state in a middleware (stateKey)"])
  ),
  retry_backoff_max_seconds: "remove it",
  source_id: "remove it",
  ...Object.fromEntries(
    [
      "additional_drop_params",
      "allow_unsigned_thinking",
      "cache_control_ttl",
      "connect_timeout_ms",
      "debug",
      "stream_idle_timeout_ms",
      "tokenizer_path",
      "tool_streaming"
    ].map((key) => [`llm_config.${key}`, "the provider's protocol decides it; remove it"])
  ),
  ...Object.fromEntries(
    ["frequency_penalty", "presence_penalty", "top_p"].map((key) => [
      `llm_config.${key}`,
      "requests carry temperature alone; rewrite them in a middleware, or remove it"
    ])
  )
}

/** Settings that apply to a whole run. A sub-agent shares them with its parent, and its file must not set them. */
export const runSettings: ReadonlySet<string> = new Set([
  "agent.api_max_retries",
  "delegation.max_concurrent_children",
  "model.context_length",
  "model.streaming",
  "network.request_timeout_seconds"
])
