/** The provider based on the official SDK of Amazon Bedrock. */
export * as BedrockConverse from "../../../models/provider/BedrockConverse.ts"
