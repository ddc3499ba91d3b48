/**
 * Questions of tools (`Ask`) to the user of an MCP client: each becomes a form of flat fields (elicitation), and the
 * answer of the client becomes the answer to the question.
 */
import * as Effect from "effect/Effect"
import * as Json from "../../base/domain/Json.ts"
import type { ApprovalAnswer } from "../../base/domain/Question.ts"
import * as QuestionAnswer from "../../base/domain/QuestionAnswer.ts"
import type { LiveAnswers, QuestionDraft } from "../CallQuestions.ts"
import type { AskClient, ClientAnswer, ClientQuestion } from "./McpCalls.ts"

type Fields = Readonly<Record<string, unknown>>

/** A question as a form, and the function that reads its answer; `undefined` is no answer. */
interface ClientForm extends Omit<ClientQuestion, "message"> {
  readonly read: (answer: ClientAnswer) => unknown
}

const flatTypes: ReadonlySet<unknown> = new Set(["boolean", "integer", "number", "string"])

const isTextList = (value: unknown): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string")

/** Returns true for a field that a form may have: a value without parts, or several choices. */
const isFlat = (field: unknown): field is Fields => {
  const { enum: choices, items, type } = Json.readFields(field)
  if (type === "array") return isTextList(Json.readFields(items)["enum"])
  return flatTypes.has(type) || isTextList(choices)
}

/** Returns a field in the form of the protocol, in which each choice is a text. */
const toField = (field: Fields): Fields => (isTextList(field["enum"]) ? { ...field, type: "string" } : field)

const approvalForm: ClientForm = {
  properties: {
    approve: { type: "boolean", title: "Approve" },
    reason: { type: "string", title: "Reason", description: "Reason of a denial" }
  },
  required: ["approve"],
  read: ({ action, content: { approve, reason } }): ApprovalAnswer => ({
    choice: action === "accept" && approve === true ? "once" : "deny",
    ...(typeof reason === "string" && reason !== "" ? { reason } : {})
  })
}

/** Field of a form whose answer is one value. */
const valueField = "answer"

/** Returns the form of a question, or `undefined` if a form of flat fields cannot express it. */
const toForm = ({ kind, schema }: Pick<QuestionDraft, "kind" | "schema">): ClientForm | undefined => {
  if (kind === "approval") return approvalForm
  const inner = QuestionAnswer.removeDeclined(schema)
  const form = inner === undefined ? undefined : toForm({ kind, schema: inner })
  if (form !== undefined)
    return { ...form, read: (given) => (given.action === "decline" ? QuestionAnswer.declined : form.read(given)) }
  if (isFlat(schema)) {
    return {
      properties: { [valueField]: toField(schema) },
      required: [valueField],
      read: ({ action, content }) => (action === "accept" ? content[valueField] : undefined)
    }
  }
  const fields = Object.entries(Json.readFields(schema["properties"]))
  if (schema["type"] !== "object" || fields.length === 0) return undefined
  const flat = fields.flatMap(([name, field]) => (isFlat(field) ? [[name, toField(field)] as const] : []))
  if (flat.length < fields.length) return undefined
  return {
    properties: Object.fromEntries(flat),
    required: Json.readItems(schema["required"]).filter((name) => typeof name === "string"),
    read: ({ action, content }) => (action === "accept" ? content : undefined)
  }
}

const withoutClient =
  "the MCP client takes no questions (elicitation): call the tool from a client that does, or give the tool what it " +
  "asks for in its parameters"

const withoutAnswer =
  "the user of the MCP client gave no answer, or the question is not a form of flat fields (texts, numbers, booleans, " +
  "choices): give the tool what it asks for in its parameters"

/** Creates the answers of a client. `askClient` is `undefined` for a client that takes no questions. */
export const makeLiveAnswers = (askClient: AskClient | undefined): LiveAnswers =>
  askClient === undefined
    ? { answer: () => Effect.undefined, withoutAnswer: withoutClient }
    : {
        withoutAnswer,
        answer: (draft) => {
          const form = toForm(draft)
          if (form === undefined) return Effect.undefined
          const message = draft.prompt === undefined ? draft.title : `${draft.title}\n\n${draft.prompt}`
          const { properties, read, required } = form
          return Effect.map(askClient({ message, properties, required }), read)
        }
      }
