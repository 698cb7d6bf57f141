output "outputs" {
  description = "Outputs of the stack by name, such as outputs[\"UpdatesQueueUrl\"]."
  value       = aws_cloudformation_stack.this.outputs
}

output "stack_id" {
  description = "ARN of the stack."
  value       = aws_cloudformation_stack.this.id
}
