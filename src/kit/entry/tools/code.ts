/** The tool that runs scripts, which can call the other tools. */
export * as ExecuteCode from "../../../tools/builtin/ExecuteCode.ts"
