/**
 * Masks personal data in the user's messages, in tool results and in answers.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `kinds` | all | some of `email`, `phone`, `credit_card`, `iban`, `ssn`, `ip` |
 * | `patterns` | none | additional regular expressions, by name |
 * | `input` | true | masks the user's message before it is stored, and every message of a request |
 * | `toolOutput` | true | masks tool results before the model and the store see them |
 * | `output` | true | masks answers; they are then shown when they are complete, not while they stream |
 *
 * A match is replaced by its kind in brackets: `[EMAIL]`. Card and account numbers are masked only if their check
 * digits are valid. The middleware fails closed: if it fails, the call or the run fails.
 *
 * **Example** (Masking customer numbers too)
 *
 * ```ts
 * import { PiiRedaction } from "hermes-effect/middleware"
 *
 * export const mask = PiiRedaction.make({ kinds: ["email", "credit_card"], patterns: { customer: "C-[0-9]{6}" } })
 *
 * console.log(PiiRedaction.maskText("write to ada@example.org", { kinds: ["email"] }))
 * // => write to [EMAIL]
 * ```
 *
 * **Example** (By its name in the kit)
 *
 * ```ts
 * import { Runtime } from "hermes-effect"
 * import { PiiRedaction } from "hermes-effect/middleware"
 *
 * export const runtime = Runtime.layer({ middleware: [PiiRedaction.make({ kinds: ["email", "phone"] })] })
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { withParts } from "../../base/domain/ModelCall.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

const Kind = Schema.Literals(["email", "phone", "credit_card", "iban", "ssn", "ip"])

const Options = Schema.Struct({
  kinds: Schema.optional(Schema.Array(Kind)),
  patterns: Schema.optional(Schema.Record(Schema.String, Schema.NonEmptyString)),
  input: Schema.optional(Schema.Boolean),
  toolOutput: Schema.optional(Schema.Boolean),
  output: Schema.optional(Schema.Boolean)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  readonly counts?: (found: string) => boolean
}

const extractDigits = (text: string): string => text.replaceAll(/\D/g, "")

/** Validates the check digit of a card number (Luhn). */
const isCard = (found: string): boolean => {
  const number = extractDigits(found)
  if (number.length < 13 || number.length > 19) return false
  let sum = 0
  for (let i = 0; i < number.length; i++) {
    const digit = Number(number[number.length - 1 - i])
    const doubled = i % 2 === 1 ? digit * 2 : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}

/** Validates the check digits of an account number (ISO 7064, modulo 97). */
const isAccount = (found: string): boolean => {
  const text = found.replaceAll(/\s/g, "").toUpperCase()
  let rest = 0
  for (const letter of text.slice(4) + text.slice(0, 4)) {
    for (const digit of String(parseInt(letter, 36))) rest = (rest * 10 + Number(digit)) % 97
  }
  return rest === 1
}

const rules: Readonly<Record<typeof Kind.Type, Rule>> = {
  email: { name: "EMAIL", pattern: /[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g },
  iban: { name: "IBAN", pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, counts: isAccount },
  credit_card: { name: "CREDIT_CARD", pattern: /\b\d(?:[ -]?\d){12,18}\b/g, counts: isCard },
  ssn: { name: "SSN", pattern: /\b(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}\b/g },
  ip: { name: "IP", pattern: /\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b/g },
  phone: {
    name: "PHONE",
    pattern:
      /(?<![\w.])(?<!\d[ .-])(?:\+\d{1,3}[ .-]?)?(?:\(\d{2,4}\)[ .-]?)?\d{2,4}[ .-]\d{3,4}[ .-]\d{3,4}(?![\w-])(?![ .]\d)/g
  }
}

/** All kinds. Kinds that can match a part of another kind come last. */
const order: ReadonlyArray<typeof Kind.Type> = ["email", "iban", "credit_card", "ssn", "ip", "phone"]

/** Compiles the rules for the parameters. Throws if a pattern is not a valid regular expression. */
const compileRules = ({ kinds = order, patterns = {} }: Options): ReadonlyArray<Rule> => [
  ...Object.entries(patterns).map(([name, source]): Rule => ({
    name: name.toUpperCase(),
    pattern: new RegExp(source, "gu")
  })),
  ...order.filter((kind) => kinds.includes(kind)).map((kind) => rules[kind])
]

const makeMask =
  (rules: ReadonlyArray<Rule>) =>
  (text: string): string =>
    rules.reduce(
      (out, { counts, name, pattern }) =>
        out.replace(pattern, (found) => (counts === undefined || counts(found) ? `[${name}]` : found)),
      text
    )

/** Removes from a string the kinds of personal data that the parameters specify. */
export const maskText = (text: string, options: Options = {}): string => makeMask(compileRules(options))(text)

type Mask = (text: string) => string

const maskValue = (mask: Mask, value: unknown): unknown => {
  if (typeof value === "string") return mask(value)
  if (Array.isArray(value)) return value.map((item) => maskValue(mask, item))
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, maskValue(mask, item)]))
}

/** Returns a message with its text masked, or the same message if nothing was masked. */
const maskMessage = (mask: Mask, message: Prompt.Message): Prompt.Message => {
  if (message.role === "system") return message
  if (message.role === "user") {
    const content = message.content.map((part) => {
      if (part.type !== "text") return part
      const text = mask(part.text)
      return text === part.text ? part : Prompt.textPart({ text, options: part.options })
    })
    return content.every((part, index) => part === message.content[index])
      ? message
      : Prompt.userMessage({ content, options: message.options })
  }
  if (message.role === "tool") {
    const content = message.content.map((part) => {
      if (part.type !== "tool-result") return part
      const result = maskValue(mask, part.result)
      return JSON.stringify(result) === JSON.stringify(part.result) ? part : Prompt.toolResultPart({ ...part, result })
    })
    return content.every((part, index) => part === message.content[index])
      ? message
      : Prompt.toolMessage({ content, options: message.options })
  }
  return message
}

const buildMiddleware = (options: Options): Middleware.LifecycleMiddleware => {
  const { input = true, output = true, toolOutput = true } = options
  const mask = makeMask(compileRules(options))
  return Middleware.lifecycle({
    name: "PiiRedaction",
    onFailure: "closed",
    ...(!input
      ? {}
      : {
          beforeAgent: ({ messages }) => {
            const last = messages.at(-1)
            const clean = last === undefined ? undefined : maskMessage(mask, last)
            return clean === undefined || clean === last
              ? Middleware.noChanges
              : Middleware.withModifications({ messages: [...messages.slice(0, -1), clean] })
          }
        }),
    ...(!toolOutput
      ? {}
      : {
          afterTool: ({ llmToolOutput, toolOutput }) => {
            const given = llmToolOutput ?? toolOutput
            const clean = maskValue(mask, given)
            if (JSON.stringify(clean) === JSON.stringify(given)) return Middleware.noChanges
            return llmToolOutput === undefined
              ? Middleware.withModifications({ toolOutput: clean })
              : Middleware.withModifications({ llmToolOutput: clean })
          }
        }),
    wrapModelCall: (next) => (params) => {
      const messages = input ? params.call.messages.map((message) => maskMessage(mask, message)) : params.call.messages
      const asked = next({ ...params, call: { ...params.call, messages, stream: params.call.stream && !output } })
      if (!output) return asked
      return Effect.map(asked, (answer) => {
        const parts = answer.response.parts.map((part) =>
          part.type === "text" ? { ...part, text: mask(part.text) } : part
        )
        return { ...answer, response: withParts(answer.response, parts) }
      })
    }
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.flatMap(Parameters.read("pii-redaction", Options, parameters), (options) =>
    Result.try({
      try: () => buildMiddleware(options),
      catch: (error) =>
        new ConfigError({
          path: "pii-redaction.patterns",
          message:
            `pii-redaction.patterns: ${error instanceof Error ? error.message : String(error)}: ` +
            "give a regular expression"
        })
    })
  )

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
