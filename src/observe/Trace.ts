/** A recorded run: a stream of ATOF events or an ATIF trajectory, recognized by its content. */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Json from "../base/domain/Json.ts"
import * as Atif from "./Atif.ts"
import * as AtifConvert from "./AtifConvert.ts"
import { toFields } from "./atif/Value.ts"
import * as Atof from "./Atof.ts"
import * as FromAtif from "./trace/FromAtif.ts"
import * as FromAtof from "./trace/FromAtof.ts"
import type { Pool } from "./trace/Pool.ts"
import type { Row } from "./trace/Row.ts"

/**
 * A parsed trace. `faults` are the lines of a stream that could not be read. `notice` describes the parts of a
 * trajectory that could not be read.
 */
export type Trace =
  | {
      readonly _tag: "Events"
      readonly events: ReadonlyArray<Atof.Event>
      readonly faults: ReadonlyArray<Atof.AtofError>
    }
  | { readonly _tag: "Trajectory"; readonly trajectory: Atif.Trajectory; readonly notice?: string | undefined }

/** Failure to parse text as a trace. The message contains the reason. */
class NoTrace extends Schema.TaggedError<NoTrace>("hermes-effect/observability/NoTrace")("NoTrace", {
  message: Schema.String
}) {}

/** Wraps a trajectory as a trace. */
export const fromTrajectory = (trajectory: Atif.Trajectory): Trace => ({ _tag: "Trajectory", trajectory })

const formatNotice = ({ unread, version }: Atif.LaterTrajectory): string =>
  `it is ${version}, later than ${Atif.version}: what is new in it is left out${
    unread === 0 ? "" : `, and so ${unread === 1 ? "is 1 step that cannot" : `are ${unread} steps that cannot`} be read`
  }. Update hermes to see all.`

/**
 * Parses the text of a file. For a trajectory of a later version, the readable parts are returned. Fails for an invalid
 * trajectory, and for a stream without any valid event.
 */
export const parse = (text: string): Result.Result<Trace, NoTrace> => {
  const whole = Option.getOrUndefined(Json.parse(text))
  if (whole !== undefined && toFields(whole)["kind"] === undefined) {
    const decoded = Atif.decodeForeign(whole)
    const later = Result.isSuccess(decoded) ? undefined : Atif.decodeLater(whole)
    if (later !== undefined) return Result.succeed({ ...fromTrajectory(later.trajectory), notice: formatNotice(later) })
    return Result.isSuccess(decoded)
      ? Result.succeed(fromTrajectory(decoded.success))
      : Result.fail(
          new NoTrace({
            message:
              `it is not an ATIF trajectory: ` +
              `${decoded.failure.message.split("\n").slice(0, 2).join(" ").replace(/\s+/gu, " ")}: \`hermes trace validate\` lists every problem`
          })
        )
  }
  const stream = Atof.parse(text)
  return stream.events.length > 0
    ? Result.succeed({ _tag: "Events", ...stream })
    : Result.fail(new NoTrace({ message: stream.faults[0]?.message ?? "there is no event and no trajectory in it" }))
}

/** Converts a trace to trajectories, and lists the events that could not be converted. */
export const toTrajectories = (trace: Trace, options?: AtifConvert.Options): ReturnType<typeof AtifConvert.convert> =>
  trace._tag === "Trajectory"
    ? { trajectories: [trace.trajectory], faults: [] }
    : AtifConvert.convert(trace.events, options)

/** Builds the rows of the timeline. Messages that several requests repeat are added to `pool` and stored there once. */
export const buildRows = (trace: Trace, pool: Pool): ReadonlyArray<Row> =>
  trace._tag === "Trajectory" ? FromAtif.buildRows(trace.trajectory) : FromAtof.buildRows(trace.events, pool)
