import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"

// Words of every kind that a store could trip over, beside whatever the generator makes up.
const Text = Schema.Union([
  Schema.String,
  Schema.Literals([
    "",
    "plain",
    "line\nbreak\r\n\t",
    "nul\u0000in it",
    "quote \" ' \\",
    "😀 é 会議",
    "\ud800 alone",
    "{}"
  ])
])
const Name = Schema.Literals(["read_file", "web-search", "a"])
// Anything that JSON has a form of, and the nothing that a tool without a result returns.
const Value = Schema.Union([
  Schema.Undefined,
  Schema.Null,
  Schema.Boolean,
  Schema.Int,
  Text,
  Schema.Array(Text),
  Schema.Struct({ path: Text, options: Schema.Struct({ deep: Schema.Array(Schema.Int), none: Schema.Null }) })
])
const Options = Schema.Union([
  Schema.Struct({}),
  Schema.Struct({ anthropic: Schema.Struct({ signature: Text, cache: Schema.Boolean }) }),
  Schema.Struct({ openai: Schema.Null })
])
const Data = Schema.Union([
  Text,
  Schema.Uint8Array,
  Schema.Literals(["https://example.org/a%20b?c=d#e"]).pipe(Schema.decodeTo(Schema.URLFromString))
])

const text = Arbitrary.map(Arbitrary.schema(Schema.Struct({ text: Text, options: Options })), Prompt.textPart)
const reasoning = Arbitrary.map(Arbitrary.schema(Schema.Struct({ text: Text, options: Options })), Prompt.reasoningPart)
const file = Arbitrary.map(
  Arbitrary.schema(Schema.Struct({ mediaType: Text, data: Data, options: Options })),
  Prompt.filePart
)
const named = Arbitrary.map(
  Arbitrary.schema(Schema.Struct({ mediaType: Text, fileName: Text, data: Data, options: Options })),
  Prompt.filePart
)
const call = Arbitrary.map(
  Arbitrary.schema(
    Schema.Struct({ id: Text, name: Name, params: Value, providerExecuted: Schema.Boolean, options: Options })
  ),
  Prompt.toolCallPart
)
const result = Arbitrary.map(
  Arbitrary.schema(
    Schema.Struct({
      id: Text,
      name: Name,
      isFailure: Schema.Boolean,
      result: Value,
      providerExecuted: Schema.Boolean,
      options: Options
    })
  ),
  Prompt.toolResultPart
)

const pick = <A>(choices: ReadonlyArray<Arbitrary.Arbitrary<A>>): Arbitrary.Arbitrary<A> =>
  Arbitrary.flatMap(
    Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: choices.length - 1 }))),
    (index) => {
      const choice = choices[index]
      if (choice === undefined) throw new RangeError(`no choice ${index}`)
      return choice
    }
  )

const optionsOf = Arbitrary.schema(Options)
const atMost = { maxLength: 4 }

const userPart: Arbitrary.Arbitrary<Prompt.UserMessagePart> = pick<Prompt.UserMessagePart>([text, file, named])
const assistantPart = pick<Prompt.AssistantMessagePart>([text, reasoning, file, call, result])
const richResult = Arbitrary.map(
  Arbitrary.all([result, Arbitrary.array(pick<Prompt.ToolModelOutputPart>([text, file]), atMost)]),
  ([part, modelOutput]) => Prompt.toolResultPart({ ...part, modelOutput })
)

/** Any message that a session can hold. */
export const message: Arbitrary.Arbitrary<Prompt.Message> = pick<Prompt.Message>([
  Arbitrary.map(Arbitrary.all({ content: Arbitrary.schema(Text), options: optionsOf }), Prompt.systemMessage),
  Arbitrary.map(Arbitrary.all({ content: Arbitrary.array(userPart, atMost), options: optionsOf }), Prompt.userMessage),
  Arbitrary.map(
    Arbitrary.all({ content: Arbitrary.array(assistantPart, atMost), options: optionsOf }),
    Prompt.assistantMessage
  ),
  Arbitrary.map(
    Arbitrary.all({ content: Arbitrary.array(pick([result, richResult]), atMost), options: optionsOf }),
    Prompt.toolMessage
  )
])

/** Any conversation. */
export const messages: Arbitrary.Arbitrary<Array<Prompt.Message>> = Arbitrary.array(message, { maxLength: 8 })
