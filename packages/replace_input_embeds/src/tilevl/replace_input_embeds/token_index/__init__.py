"""The op image_token_index: from a mask of image tokens to the index that replace_input_embeds takes."""
